// Finds, reads and tokenizes the dataset of a training run.
#pragma once

#include <memory>

#include "apps/train_options.h"
#include "train/step/chat_dataset.h"

namespace folio::apps {

struct TrainData {
  std::unique_ptr<const train::Dataset> dataset{};
  const train::TextDataset* text = nullptr;  ///< points to `dataset`; null for conversations
  bool several_documents = false;            ///< true if the texts have more than one document
};

/// Reads the dataset, and derives the number of steps from --epochs. Throws core::Error, or core::UsageError for flags
/// that the kind of dataset does not support.
[[nodiscard]] TrainData read_data(TrainOptions& options);

}  // namespace folio::apps
