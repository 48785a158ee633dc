// Drafts from a second, smaller model of the same vocabulary. Leviathan et al., "Fast Inference from Transformers via
// Speculative Decoding", 2023. There, sampling anew keeps the distribution. Here a draft is drawn as the text's own
// token will be, by its sampler and for its position, so the two are equal where the models nearly agree.
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
  /// Drafts for texts of `target`, which may run on the same machine. `model` and `machine` have to outlive this, and
  /// this the requests that it drafts for. Throws core::Error if the models' vocabularies are not of one size, and as
  /// Runner's constructor does.
  DraftModel(const core::StoredModel& model, const core::StoredModel& target, Machine& machine,
             const CacheOptions& options = {});
  DraftModel(core::StoredModel&&, const core::StoredModel&, Machine&, const CacheOptions& = {}) = delete;

  /// One forward pass for what it has not read yet, and one for each draft after the first, for all texts together. It
  /// reads no more than a step's rows at once: until it has read a text, it drafts nothing for it. Nor does it where a
  /// text is longer than its context, or its cache has no room.
  void draft(std::span<const Text> texts) override;

  [[nodiscard]] Runner& runner() { return runner_; }

 private:
  class CachedText;
  // A text whose drafts are drawn.
  struct DraftedText {
    const Text* text;
    SequenceId sequence;
    size_t n_left;  ///< drafts
  };

  void read(const Text& text, int64_t& reserved);

  Runner runner_;
  std::vector<Row> rows_;
  std::vector<DraftedText> drafted_;
};

}  // namespace folio::infer
