#include "infer/engine/mtp_drafter.h"

#include <algorithm>

#include "core/error.h"
#include "infer/forward/tokens_ahead.h"

namespace folio::infer {
namespace {

// observe() runs the module if more rows are pending, to limit memory. A sequence that stops drafting rests before.
constexpr size_t kManyRows = Drafts::kStepsToRest + 16;

}  // namespace

MtpDrafter::MtpDrafter(const core::StoredModel& model, Machine& machine, const CacheOptions& options)
    : DraftModel(module_of(model), model, machine, options), dim_(static_cast<size_t>(model.config.dim)) {
  core::require(runner_.keeps_hidden(), "{}: its module cannot draft on several ranks; use one process", model.path);
}

// Returns the number of rows that the module has not computed yet. A sequence has one row per token, except for the
// first. Sequences that differ only in the first token share cache blocks, since drafts need not be exact.
size_t MtpDrafter::n_pending(const CachedSequence& cached) const {
  return cached.tokens.size() - static_cast<size_t>(runner_.cache().length(cached.sequence.id()));
}

// Adds observed rows. The rows of accepted drafts, which the module computed from its own hidden states, are computed
// again from the model's hidden states.
void MtpDrafter::add(CachedSequence& cached, const Computed& rows) {
  const SequenceId id = cached.sequence.id();
  runner_.cache().truncate(id, std::min(runner_.cache().length(id), std::ssize(cached.tokens)));
  const size_t n = rows.hidden.size() / dim_;
  const auto tokens = rows.tokens.subspan(rows.first + 1, n);
  cached.tokens.insert(cached.tokens.end(), tokens.begin(), tokens.end());
  cached.hidden.insert(cached.hidden.end(), rows.hidden.begin(), rows.hidden.end());
  cached.end = rows.first + n;
}

// Removes drafts from the KV cache, and also the last row, which must be computed again to draw the first draft.
void MtpDrafter::settle(CachedSequence& cached) {
  BlockManager& cache = runner_.cache();
  const SequenceId id = cached.sequence.id();
  const int64_t n = std::min(cache.length(id), std::ssize(cached.tokens) - 1);
  cache.truncate(id, n);
  cache.remember(id, std::span(cached.tokens).first(static_cast<size_t>(n)));
  const size_t n_kept = n_pending(cached) * dim_;
  cached.hidden.erase(cached.hidden.begin(), cached.hidden.end() - static_cast<std::ptrdiff_t>(n_kept));
}

void MtpDrafter::observe(std::span<const Computed> all) {
  for (const Computed& c : all) {
    const auto* known = static_cast<const CachedSequence*>(c.memory.get());
    if (known == nullptr || known->end != c.first) {  // new, recomputed, or not observed in some steps
      c.memory.reset();
      auto cached = std::make_unique<CachedSequence>(runner_.cache());
      const auto tokens = c.tokens.subspan(c.begin + 1, c.first - c.begin);
      const auto n = runner_.cache().share_prefix(cached->sequence.id(), tokens);
      cached->tokens.assign(tokens.begin(), tokens.begin() + n);  // uncached earlier tokens are left out
      c.memory = std::move(cached);
    }
    add(static_cast<CachedSequence&>(*c.memory), c);
  }
  do {
    clear();
    for (const Computed& c : all) {
      if (c.memory == nullptr) continue;
      auto& cached = static_cast<CachedSequence&>(*c.memory);
      settle(cached);
      if (n_pending(cached) <= kManyRows) continue;
      if (!append_rows(cached.sequence.id(), cached.tokens, cached.hidden, nullptr, 0)) c.memory.reset();
    }
    static_cast<void>(runner_.forward(rows_));
  } while (!rows_.empty());
}

void MtpDrafter::draft(std::span<const Input> inputs) {
  clear();
  for (const Input& input : inputs) {
    auto* cached = static_cast<CachedSequence*>(input.memory.get());
    if (cached == nullptr || cached->end + 1 != input.tokens.size()) continue;
    settle(*cached);
    if (!append_rows(cached->sequence.id(), cached->tokens, cached->hidden, &input, input.most)) input.memory.reset();
  }
  draw();
}

}  // namespace folio::infer
