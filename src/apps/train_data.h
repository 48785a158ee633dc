// The dataset of train: finds, reads and tokenizes it.
#pragma once

#include <memory>

#include "apps/train_options.h"
#include "train/step/chat_dataset.h"

namespace folio::apps {

struct TrainData {
  std::unique_ptr<const train::Dataset> dataset{};
  const train::TextDataset* text = nullptr;  ///< equals `dataset`; null for conversations
  bool several_documents = false;            ///< the texts have more than one document
};

/// Reads the dataset, and derives the number of steps from --epochs. Throws core::Error, or UsageError for flags that
/// the kind of dataset does not support.
[[nodiscard]] TrainData read_data(TrainOptions& options);

}  // namespace folio::apps
