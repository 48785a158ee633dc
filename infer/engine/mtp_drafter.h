// Drafts from the model's own module for multi-token prediction (forward/tokens_ahead.h). The module has its own KV
// cache, for the positions that were passed to observe(). For each further draft of a step, the module runs again, on
// its previous hidden state and draft. As in DraftModel, the sequence's own sampler draws the drafts.
#pragma once

#include <span>

#include "infer/engine/draft_model.h"

namespace folio::infer {

class MtpDrafter : public DraftModel {
 public:
  /// Creates a drafter for sequences of `model`. `model` and `machine` must outlive the drafter, and the drafter must
  /// outlive its requests. Throws core::Error if the model has no module, the machine consists of several processes or
  /// cannot run the module, or it has no memory for one cache block.
  MtpDrafter(const core::StoredModel& model, Machine& machine, const CacheOptions& options = {});
  MtpDrafter(core::StoredModel&&, Machine&, const CacheOptions& = {}) = delete;

  [[nodiscard]] bool reads_hidden() const override { return true; }
  /// Stores the rows as inputs of the module. Runs the module immediately for sequences with many pending rows.
  void observe(std::span<const Computed> all) override;
  /// Appends drafts for all sequences together. A sequence gets none before it is observed, after tokens that
  /// structured output forces, or if it exceeds the module's cache.
  void draft(std::span<const Input> inputs) override;

 private:
  [[nodiscard]] size_t n_pending(const CachedSequence& cached) const;
  void add(CachedSequence& cached, const Computed& rows);
  void settle(CachedSequence& cached);

  size_t dim_;
};

}  // namespace folio::infer
