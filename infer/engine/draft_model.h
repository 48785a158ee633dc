// Drafts from a smaller model with the same vocabulary. Leviathan et al., "Fast Inference from Transformers via
// Speculative Decoding", 2023, preserve the target model's distribution by resampling. Here, the sequence's sampler
// draws a draft with the same random number as the target model's token at that position, so that the two tokens are
// usually equal if the models' distributions are similar.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/engine/drafts.h"
#include "infer/forward/runner.h"

namespace folio::infer {

class DraftModel : public Drafter {
 public:
  /// Creates a drafter for sequences of `target`, which may run on the same machine. `machine` must outlive the
  /// drafter, and the drafter must outlive its requests. Throws core::Error if the vocabularies differ in size, or if
  /// the machine cannot run the model or has no memory for one cache block.
  DraftModel(core::StoredModel model, const core::StoredModel& target, Machine& machine,
             const CacheOptions& options = {});

  /// Appends drafts for all sequences together. The first forward pass computes at most max_rows() tokens that the
  /// draft model has not computed yet, and draws the first drafts. Each further pass draws one more draft per sequence.
  /// A sequence gets no drafts until all its tokens are computed, or if it exceeds the draft model's context or cache.
  void draft(std::span<const Input> inputs) override;

  [[nodiscard]] Runner& runner() { return runner_; }

 protected:
  // A sequence in the draft model's KV cache.
  struct CachedSequence final : Memory {
    explicit CachedSequence(BlockManager& cache) : sequence(cache) {}
    ScopedSequence sequence;
    std::vector<int32_t> tokens{};  ///< the sequence's tokens; the last ones may not be cached yet
    // Only used by MtpDrafter (mtp_drafter.h):
    std::vector<float> hidden{};  ///< (tokens that are not cached, dim): inputs of the MTP module
    size_t end = 0;               ///< index of the sequence's first token whose hidden state was not observed yet
  };
  // A sequence whose drafts are being drawn.
  struct DraftedSequence {
    const Input* input;
    SequenceId sequence;
    size_t n_left;                ///< drafts left to draw
    size_t row;                   ///< index in rows_ of the row that draws the next draft
    std::vector<float> hidden{};  ///< (dim), only in an MTP module: input of the next row
  };

  void clear();
  /// Appends rows for the `tokens` that are not cached, up to the limit of a step. `hidden` (rows, dim) has the rows'
  /// input hidden states in an MTP module, else it is empty. If all rows fit into the step, the last one draws the
  /// first of `n_drafts` drafts for `input`; otherwise, or if `input` is null, the sequence gets no drafts in this
  /// step. Returns false, and appends nothing, if `tokens` and the drafts exceed the context or the free cache blocks.
  [[nodiscard]] bool append_rows(SequenceId sequence, std::span<const int32_t> tokens, std::span<const float> hidden,
                                 const Input* input, size_t n_drafts);
  /// Runs rows_, and then a row for each further draft of drafted_. In an MTP module, each of these rows reads the
  /// hidden state that the preceding row of its sequence produced.
  void draw();

  core::StoredModel model_;
  Runner runner_;
  std::vector<Row> rows_;

 private:
  [[nodiscard]] size_t n_drafts(const Input& input) const;
  void set_tokens(const Input& input);

  int64_t reserved_ = 0;  ///< free blocks that rows_ and the drafts after them need
  std::vector<DraftedSequence> drafted_;
};

}  // namespace folio::infer
