// What train trains on: found, read and tokenized.
#pragma once

#include <memory>

#include "apps/train_options.h"
#include "train/step/chat_dataset.h"

namespace folio::apps {

struct TrainData {
  std::unique_ptr<const train::Dataset> dataset{};
  const train::TextDataset* text = nullptr;  ///< the same; null if these are conversations
  bool several_documents = false;            ///< of texts
};

/// With --epochs, sets the number of steps. Throws core::Error, or UsageError for flags that don't fit what is read.
[[nodiscard]] TrainData read_data(TrainOptions& options);

}  // namespace folio::apps
