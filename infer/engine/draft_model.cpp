#include "infer/engine/draft_model.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

const core::StoredModel& checked(const core::StoredModel& model, const core::StoredModel& target) {
  core::require(model.config.vocab_size == target.config.vocab_size,
                "{} has a vocabulary of {} tokens, but {} has {}; use a draft model with the same vocabulary",
                model.path, model.config.vocab_size, target.path, target.config.vocab_size);
  return model;
}

}  // namespace

DraftModel::DraftModel(core::StoredModel model, const core::StoredModel& target, Machine& machine,
                       const CacheOptions& options)
    : model_(std::move(model)), runner_(checked(model_, target), machine, options) {}

void DraftModel::draft(std::span<const Input> inputs) {
  clear();
  for (const Input& input : inputs) set_tokens(input);  // before append_rows(): sharing a block changes others' needs
  for (const Input& input : inputs) {
    if (input.memory == nullptr) continue;
    const auto& cached = static_cast<const CachedSequence&>(*input.memory);
    if (!append_rows(cached.sequence.id(), cached.tokens, {}, &input, n_drafts(input))) input.memory.reset();
  }
  draw();
  for (const Input& input : inputs) {
    if (input.memory == nullptr) continue;
    const auto tokens = std::span(input.tokens).subspan(input.first);
    static_cast<CachedSequence&>(*input.memory).tokens.assign(tokens.begin(), tokens.end());
  }
}

void DraftModel::clear() {
  rows_.clear();
  drafted_.clear();
  reserved_ = 0;
}

bool DraftModel::append_rows(SequenceId sequence, std::span<const int32_t> tokens, std::span<const float> hidden,
                             const Input* input, size_t n_drafts) {
  const BlockManager& cache = runner_.cache();
  const auto first = static_cast<size_t>(cache.length(sequence));
  const size_t n = tokens.size() - first;
  const auto n_further = static_cast<int64_t>(std::max<size_t>(n_drafts, 1) - 1);  // the last draft needs no row
  const int64_t needed = cache.blocks_needed(sequence, static_cast<int64_t>(n) + n_further);
  if (std::ssize(tokens) + n_further > runner_.config().context_length) return false;
  if (reserved_ + needed > cache.free_blocks()) return false;
  reserved_ += needed;
  const size_t dim = hidden.size() / n;
  size_t i = 0;
  for (; i < n && rows_.size() < runner_.max_rows(); ++i) {
    rows_.push_back({.token = tokens[first + i],
                     .sequence = sequence,
                     .position = static_cast<int64_t>(first + i),
                     .wants_logits = false,
                     .hidden = hidden.subspan(i * dim, dim)});
  }
  if (input == nullptr || i < n) return true;
  rows_.back().sampler = &input->sampler;
  rows_.back().history = input->tokens;
  rows_.back().keeps_hidden = dim > 0;
  drafted_.push_back({.input = input, .sequence = sequence, .n_left = n_drafts, .row = rows_.size() - 1});
  return true;
}

void DraftModel::draw() {
  while (!rows_.empty()) {
    const auto [logits, drawn, hidden] = runner_.forward(rows_);
    const size_t dim = hidden.size() / rows_.size();
    rows_.clear();
    for (size_t i = 0; i < drafted_.size(); ++i) {
      DraftedSequence& own = drafted_[i];
      own.n_left = drawn[i] < 0 ? 0 : own.n_left - 1;  // negative: no token can be drawn
      if (drawn[i] >= 0) own.input->tokens.push_back(drawn[i]);
      if (own.n_left == 0) continue;
      const auto next = hidden.subspan(own.row * dim, dim);
      own.hidden.assign(next.begin(), next.end());
      own.row = rows_.size();
      rows_.push_back({.token = drawn[i],
                       .sequence = own.sequence,
                       .position = runner_.cache().length(own.sequence),
                       .wants_logits = false,
                       .sampler = &own.input->sampler,
                       .history = own.input->tokens,
                       .keeps_hidden = dim > 0,
                       .hidden = own.hidden});
    }
    std::erase_if(drafted_, [](const DraftedSequence& own) { return own.n_left == 0; });
  }
}

// Updates a sequence's state in the cache, or discards it if the context has no space for drafts. Keeps the positions
// of the common prefix, except that of the last token, whose row must be computed to draw the first draft.
// cached.tokens may be longer than the cached part, for example after a failed step.
void DraftModel::set_tokens(const Input& input) {
  if (n_drafts(input) == 0) return input.memory.reset();
  if (input.memory == nullptr) input.memory = std::make_unique<CachedSequence>(runner_.cache());
  auto& cached = static_cast<CachedSequence&>(*input.memory);
  const auto tokens = std::span(input.tokens).subspan(input.first);
  BlockManager& cache = runner_.cache();
  const SequenceId id = cached.sequence.id();
  const auto known = tokens.first(tokens.size() - 1);
  const size_t n_most = std::min({static_cast<size_t>(cache.length(id)), cached.tokens.size(), known.size()});
  const auto held = std::span<const int32_t>(cached.tokens).first(n_most);
  const auto n_kept = std::mismatch(held.begin(), held.end(), known.begin()).first - held.begin();
  cache.truncate(id, n_kept);
  if (n_kept == 0) cache.share_prefix(id, known);
  cache.remember(id, known.first(static_cast<size_t>(cache.length(id))));
  cached.tokens.assign(tokens.begin(), tokens.end());
}

// Returns the number of drafts that fit in the context. The last one needs no position.
size_t DraftModel::n_drafts(const Input& input) const {
  const auto n_tokens = static_cast<int64_t>(input.tokens.size() - input.first);
  const int64_t n_free = runner_.config().context_length - n_tokens + 1;
  return std::min(input.most, static_cast<size_t>(std::max<int64_t>(n_free, 0)));
}

}  // namespace folio::infer
