// A dataset of conversations, rendered with a chat template and packed into windows. The loss counts only the answers.
#pragma once

#include "data/chat/packing.h"
#include "train/step/dataset.h"

namespace folio::train {

class ChatDataset final : public Dataset {
 public:
  /// `eval` is the validation split. If it is null, the split is a random fraction of the conversations
  /// (config.validation_fraction), the same for all seeds. Throws core::Error for an invalid conversation, one that the
  /// template cannot render, a split where no answer begins within a window, or too few conversations for the splits.
  ChatDataset(const data::TextFiles& texts, const data::TextFiles* eval, const TrainConfig& config,
              std::unique_ptr<const data::Tokenizer> tokenizer, data::ChatTemplate chat);

  [[nodiscard]] data::BatchOf random_batches(Split split, const TrainConfig& c, uint64_t seed) const override {
    return packed(split).shuffled(c.batch_size, seed);
  }
  [[nodiscard]] data::Batches validation_batches(const TrainConfig&) const override {
    return validation_.packed->in_order();
  }
  [[nodiscard]] int64_t windows_per_epoch(const TrainConfig&) const override { return train_.packed->n_windows(); }
  [[nodiscard]] SamplePrompt sample_prompt() const override { return sample_; }

  [[nodiscard]] int64_t n_conversations(Split split) const { return part(split).n_conversations; }
  [[nodiscard]] const data::PackedExamples& packed(Split split) const { return *part(split).packed; }

 private:
  struct Part {
    int64_t n_conversations = 0;
    std::unique_ptr<const data::PackedExamples> packed{};  // on the heap, as batches point to the object
  };
  [[nodiscard]] const Part& part(Split split) const { return split == Split::Train ? train_ : validation_; }

  Part train_, validation_;
  SamplePrompt sample_;
};

}  // namespace folio::train
