// Drafts from a smaller model with the same vocabulary. Leviathan et al., "Fast Inference from Transformers via
// Speculative Decoding", 2023, preserve the distribution by resampling. Here the sequence's own sampler draws the draft
// for its position, so it equals the target's token if the models nearly agree.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "infer/engine/drafts.h"
#include "infer/forward/runner.h"

namespace folio::infer {

class DraftModel : public Drafter {
 public:
  /// Creates a drafter for sequences of `target`, which may run on the same machine. `model` and `machine` must outlive
  /// it, and it must outlive the requests it drafts for. Throws core::Error if the vocabularies differ in size, and as
  /// Runner's constructor does.
  DraftModel(const core::StoredModel& model, const core::StoredModel& target, Machine& machine,
             const CacheOptions& options = {});
  DraftModel(core::StoredModel&&, const core::StoredModel&, Machine&, const CacheOptions& = {}) = delete;

  /// Runs one forward pass over tokens that are not in its cache, at most max_rows() of them, then one per further
  /// draft, for all sequences together. A sequence gets no drafts until its tokens are computed, or if it exceeds this
  /// model's context or cache.
  void draft(std::span<const Text> texts) override;

  [[nodiscard]] Runner& runner() { return runner_; }

 private:
  class CachedText;
  // A sequence whose drafts are being drawn.
  struct DraftedText {
    const Text* text;
    SequenceId sequence;
    size_t n_left;  ///< drafts left to draw
  };

  void read(const Text& text, int64_t& reserved);

  Runner runner_;
  std::vector<Row> rows_;
  std::vector<DraftedText> drafted_;
};

}  // namespace folio::infer
