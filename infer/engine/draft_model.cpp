#include "infer/engine/draft_model.h"

#include <algorithm>

#include "core/error.h"

namespace folio::infer {
namespace {

const core::StoredModel& checked(const core::StoredModel& model, const core::StoredModel& target) {
  core::require(model.config.vocab_size == target.config.vocab_size,
                "{} has a vocabulary of {} tokens, and {} one of {}: drafts need a model of the same vocabulary",
                model.path, model.config.vocab_size, target.path, target.config.vocab_size);
  return model;
}

}  // namespace

// What the cache holds of a text.
class DraftModel::Sequence final : public Drafter::Memory {
 public:
  explicit Sequence(BlockManager& cache) : cache_(cache), id_(cache.add_sequence()) {}
  ~Sequence() override { cache_.release(id_); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  [[nodiscard]] SequenceId id() const { return id_; }

  // It is of these tokens from now on. Keeps those that it shares with them, but not the last, after which is drawn.
  void turn_to(std::span<const int32_t> tokens) {
    const auto known = tokens.first(tokens.size() - 1);
    const size_t n_most = std::min({static_cast<size_t>(cache_.length(id_)), tokens_.size(), known.size()});
    const auto held = std::span<const int32_t>(tokens_).first(n_most);
    const auto n_kept = std::mismatch(held.begin(), held.end(), known.begin()).first - held.begin();
    cache_.truncate(id_, n_kept);
    if (n_kept == 0) cache_.share_prefix(id_, known);
    cache_.remember(id_, known.first(static_cast<size_t>(cache_.length(id_))));
    tokens_.assign(tokens.begin(), tokens.end());
  }
  void push(int32_t token) { tokens_.push_back(token); }

 private:
  BlockManager& cache_;
  SequenceId id_;
  std::vector<int32_t> tokens_;  ///< of all positions that the cache holds; more where a step failed
};

DraftModel::DraftModel(const core::StoredModel& model, const core::StoredModel& target, Machine& machine,
                       const CacheOptions& options)
    : runner_(checked(model, target), machine, options) {}

void DraftModel::draft(std::span<const Text> texts) {
  rows_.clear();
  drafted_.clear();
  int64_t reserved = 0;
  for (const Text& text : texts) read(text, reserved);
  while (!rows_.empty()) {
    const std::span<const int32_t> drawn = runner_.forward(rows_).tokens;
    rows_.clear();
    for (size_t i = 0; i < drafted_.size(); ++i) {
      DraftedText& part = drafted_[i];
      part.n_left = drawn[i] < 0 ? 0 : part.n_left - 1;  // no token can be drawn
      if (drawn[i] >= 0) part.text->tokens.push_back(drawn[i]);
      if (part.n_left == 0) continue;
      static_cast<Sequence&>(*part.text->memory).push(drawn[i]);
      rows_.push_back({.token = drawn[i],
                       .sequence = part.sequence,
                       .position = runner_.cache().length(part.sequence),
                       .wants_logits = false,
                       .sampler = &part.text->sampler,
                       .history = part.text->tokens});
    }
    std::erase_if(drafted_, [](const DraftedText& part) { return part.n_left == 0; });
  }
}

// No position is needed for the last.
size_t DraftModel::n_drafts(const Text& text) const {
  const int64_t room = runner_.config().context_length - static_cast<int64_t>(text.tokens.size() - text.first) + 1;
  return std::min(text.most, static_cast<size_t>(std::max<int64_t>(room, 0)));
}

// Rows of what was not read yet. After the last is drawn. Of the free blocks so many are for rows of other texts.
void DraftModel::read(const Text& text, int64_t& reserved) {
  BlockManager& cache = runner_.cache();
  const auto tokens = std::span(text.tokens).subspan(text.first);
  const size_t n = n_drafts(text);
  if (n == 0) return text.memory.reset();
  if (text.memory == nullptr) text.memory = std::make_unique<Sequence>(cache);
  auto& sequence = static_cast<Sequence&>(*text.memory);
  sequence.turn_to(tokens);
  const auto first = static_cast<size_t>(cache.length(sequence.id()));
  const int64_t needed = cache.blocks_needed(sequence.id(), static_cast<int64_t>(tokens.size() - first + n - 1));
  if (reserved + needed > cache.free_blocks()) return text.memory.reset();
  reserved += needed;
  const size_t end = std::min(tokens.size(), first + runner_.max_rows() - rows_.size());
  for (size_t i = first; i < end; ++i) {
    rows_.push_back(
        {.token = tokens[i], .sequence = sequence.id(), .position = static_cast<int64_t>(i), .wants_logits = false});
  }
  if (end < tokens.size()) return;
  rows_.back().sampler = &text.sampler;
  rows_.back().history = text.tokens;
  drafted_.push_back({.text = &text, .sequence = sequence.id(), .n_left = n});
}

}  // namespace folio::infer
