#include "infer/engine/draft_model.h"

#include <algorithm>

#include "core/error.h"
#include "infer/cache/scoped_sequence.h"

namespace folio::infer {
namespace {

const core::StoredModel& checked(const core::StoredModel& model, const core::StoredModel& target) {
  core::require(model.config.vocab_size == target.config.vocab_size,
                "{} has a vocabulary of {} tokens, but {} has {}; use a draft model with the same vocabulary",
                model.path, model.config.vocab_size, target.path, target.config.vocab_size);
  return model;
}

}  // namespace

// A sequence in the draft model's KV cache.
class DraftModel::CachedText final : public Drafter::Memory {
 public:
  explicit CachedText(BlockManager& cache) : cache_(cache), sequence_(cache) {}

  [[nodiscard]] SequenceId id() const { return sequence_.id(); }

  // Replaces the sequence's tokens. Keeps the cached positions of the common prefix, except that of the last token,
  // whose row must be computed to draw the first draft.
  void turn_to(std::span<const int32_t> tokens) {
    const auto known = tokens.first(tokens.size() - 1);
    const size_t n_most = std::min({static_cast<size_t>(cache_.length(id())), tokens_.size(), known.size()});
    const auto held = std::span<const int32_t>(tokens_).first(n_most);
    const auto n_kept = std::mismatch(held.begin(), held.end(), known.begin()).first - held.begin();
    cache_.truncate(id(), n_kept);
    if (n_kept == 0) cache_.share_prefix(id(), known);
    cache_.remember(id(), known.first(static_cast<size_t>(cache_.length(id()))));
    tokens_.assign(tokens.begin(), tokens.end());
  }
  void set(std::span<const int32_t> tokens) { tokens_.assign(tokens.begin(), tokens.end()); }

 private:
  BlockManager& cache_;
  ScopedSequence sequence_;
  std::vector<int32_t> tokens_;  ///< tokens of all cached positions; after a failed step, also of positions not cached
};

DraftModel::DraftModel(const core::StoredModel& model, const core::StoredModel& target, Machine& machine,
                       const CacheOptions& options)
    : runner_(checked(model, target), machine, options) {}

void DraftModel::draft(std::span<const Text> texts) {
  rows_.clear();
  drafted_.clear();
  int64_t reserved = 0;
  for (const Text& text : texts) read(text, reserved);
  draw();
  for (const Text& text : texts) {
    if (text.memory) static_cast<CachedText&>(*text.memory).set(std::span(text.tokens).subspan(text.first));
  }
}

void DraftModel::draw() {
  while (!rows_.empty()) {
    const auto [logits, drawn, hidden] = runner_.forward(rows_);
    const size_t dim = hidden.size() / rows_.size();
    rows_.clear();
    for (size_t i = 0; i < drafted_.size(); ++i) {
      DraftedText& part = drafted_[i];
      part.n_left = drawn[i] < 0 ? 0 : part.n_left - 1;  // negative: no token can be drawn
      if (drawn[i] >= 0) part.text->tokens.push_back(drawn[i]);
      if (part.n_left == 0) continue;
      const auto next = hidden.subspan(part.row * dim, dim);
      part.hidden.assign(next.begin(), next.end());
      part.row = rows_.size();
      rows_.push_back({.token = drawn[i],
                       .sequence = part.sequence,
                       .position = runner_.cache().length(part.sequence),
                       .wants_logits = false,
                       .sampler = &part.text->sampler,
                       .history = part.text->tokens,
                       .keeps_hidden = dim > 0,
                       .hidden = part.hidden});
    }
    std::erase_if(drafted_, [](const DraftedText& part) { return part.n_left == 0; });
  }
}

// Appends rows for the text's tokens that are not cached. The last row draws the first draft. `reserved` is the number
// of free blocks that earlier rows need; adds those of this text.
void DraftModel::read(const Text& text, int64_t& reserved) {
  BlockManager& cache = runner_.cache();
  const auto tokens = std::span(text.tokens).subspan(text.first);
  // No row is computed for the last draft, so it needs no position.
  const int64_t n_free = runner_.config().context_length - std::ssize(tokens) + 1;
  const size_t n = std::min(text.most, static_cast<size_t>(std::max<int64_t>(n_free, 0)));
  if (n == 0) return text.memory.reset();
  if (text.memory == nullptr) text.memory = std::make_unique<CachedText>(cache);
  auto& sequence = static_cast<CachedText&>(*text.memory);
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
  drafted_.push_back({.text = &text, .sequence = sequence.id(), .n_left = n, .row = rows_.size() - 1});
}

}  // namespace folio::infer
