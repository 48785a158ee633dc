#include "infer/engine/mtp_drafter.h"

#include <algorithm>

#include "core/error.h"
#include "infer/cache/scoped_sequence.h"
#include "infer/forward/tokens_ahead.h"

namespace folio::infer {
namespace {

constexpr size_t kManyRows = 32;  // rows of a sequence that observe() runs, since a prompt's would take much memory

}  // namespace

// A sequence in the module's KV cache. Its rows are the tokens after the first one of the sequence; the last ones may
// not be computed yet. Blocks are shared by these tokens, since drafts need not be exact: the first token may differ.
class MtpDrafter::Follower final : public Drafter::Memory {
 public:
  // Begins at index `first` of the sequence's tokens, whose context begins at index `begin`. Earlier rows are taken
  // from other sequences, or are missing.
  Follower(BlockManager& cache, std::span<const int32_t> tokens, size_t begin, size_t first)
      : cache_(cache), sequence_(cache), end_(first) {
    tokens = tokens.subspan(begin);
    const auto n = cache.share_prefix(id(), tokens.subspan(1, first - begin));
    rows_.assign(tokens.begin() + 1, tokens.begin() + 1 + n);
  }

  [[nodiscard]] SequenceId id() const { return sequence_.id(); }
  [[nodiscard]] size_t end() const { return end_; }  ///< index of the token whose hidden state comes next
  [[nodiscard]] size_t n_pending() const { return rows_.size() - static_cast<size_t>(cache_.length(id())); }

  void add(const Computed& c, size_t dim) {
    // Accepted drafts are computed again, from the model's hidden states instead of the module's.
    cache_.truncate(id(), std::min(cache_.length(id()), std::ssize(rows_)));
    const size_t n = c.hidden.size() / dim;
    const auto tokens = c.tokens.subspan(c.first + 1, n);
    rows_.insert(rows_.end(), tokens.begin(), tokens.end());
    hidden_.insert(hidden_.end(), c.hidden.begin(), c.hidden.end());
    end_ = c.first + n;
  }
  // Removes drafts from the KV cache, and hidden states of computed rows. The last row is left to draw the first draft.
  void settle(size_t dim) {
    const int64_t n = std::min(cache_.length(id()), std::ssize(rows_) - 1);
    cache_.truncate(id(), n);
    cache_.remember(id(), std::span(rows_).first(static_cast<size_t>(n)));
    hidden_.erase(hidden_.begin(), hidden_.end() - static_cast<std::ptrdiff_t>(n_pending() * dim));
  }
  // Returns the i-th row that is not computed. Valid until the next call of add() or settle().
  [[nodiscard]] Row pending(size_t i, size_t dim) const {
    const int64_t position = cache_.length(id()) + static_cast<int64_t>(i);
    return {.token = rows_[static_cast<size_t>(position)],
            .sequence = id(),
            .position = position,
            .wants_logits = false,
            .hidden = std::span(hidden_).subspan(i * dim, dim)};
  }

 private:
  BlockManager& cache_;
  ScopedSequence sequence_;
  size_t end_;
  std::vector<int32_t> rows_;
  std::vector<float> hidden_;  ///< (n_pending(), dim)
};

MtpDrafter::MtpDrafter(const core::StoredModel& model, Machine& machine, const CacheOptions& options)
    : MtpDrafter(std::make_unique<core::StoredModel>(module_of(model)), model, machine, options) {}

MtpDrafter::MtpDrafter(std::unique_ptr<const core::StoredModel> module, const core::StoredModel& model,
                       Machine& machine, const CacheOptions& options)
    : DraftModel(*module, model, machine, options),
      module_(std::move(module)),
      dim_(static_cast<size_t>(model.config.dim)) {
  core::require(runner_.keeps_hidden(), "{}: its module cannot draft on several ranks; use one process", model.path);
}

// Appends the follower's first pending rows, as many as a step still holds, at most `n_rows`. Returns false if the
// cache cannot hold them and `n_drafts` more.
bool MtpDrafter::append_rows(const Follower& follower, size_t n_rows, size_t n_drafts) {
  const BlockManager& cache = runner_.cache();
  const auto n = static_cast<int64_t>(n_rows + n_drafts);
  const int64_t needed = cache.blocks_needed(follower.id(), n);
  if (cache.length(follower.id()) + n > module_->config.context_length) return false;
  if (reserved_ + needed > cache.free_blocks()) return false;
  reserved_ += needed;
  const size_t end = std::min(n_rows, runner_.max_rows() - rows_.size());
  for (size_t i = 0; i < end; ++i) rows_.push_back(follower.pending(i, dim_));
  return true;
}

void MtpDrafter::observe(std::span<const Computed> all) {
  for (const Computed& c : all) {
    const auto* known = static_cast<const Follower*>(c.memory.get());
    if (known == nullptr || known->end() != c.first) {  // new, computed again, or not observed for some steps
      c.memory.reset();
      c.memory = std::make_unique<Follower>(runner_.cache(), c.tokens, c.begin, c.first);
    }
    static_cast<Follower&>(*c.memory).add(c, dim_);
  }
  do {
    rows_.clear();
    reserved_ = 0;
    for (const Computed& c : all) {
      if (c.memory == nullptr) continue;
      auto& follower = static_cast<Follower&>(*c.memory);
      follower.settle(dim_);
      const size_t n = follower.n_pending() - 1;
      if (n >= kManyRows && !append_rows(follower, n, 0)) c.memory.reset();
    }
    static_cast<void>(runner_.forward(rows_));
  } while (!rows_.empty());
}

void MtpDrafter::draft(std::span<const Text> texts) {
  rows_.clear();
  drafted_.clear();
  reserved_ = 0;
  for (const Text& text : texts) {
    auto* follower = static_cast<Follower*>(text.memory.get());
    if (follower == nullptr || follower->end() + 1 != text.tokens.size()) continue;
    follower->settle(dim_);
    const size_t n = follower->n_pending();
    if (rows_.size() + n > runner_.max_rows()) continue;
    if (!append_rows(*follower, n, text.most - 1)) {
      text.memory.reset();
      continue;
    }
    rows_.back().sampler = &text.sampler;
    rows_.back().history = text.tokens;
    rows_.back().keeps_hidden = true;
    drafted_.push_back({.text = &text, .sequence = follower->id(), .n_left = text.most, .row = rows_.size() - 1});
  }
  draw();
}

}  // namespace folio::infer
