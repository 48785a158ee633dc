// What train trains on: found, read, tokenized, and what is said of it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/train_options.h"
#include "data/document_tokens.h"
#include "data/documents.h"
#include "train/step/chat_dataset.h"

namespace folio::apps {

struct TrainData {
  data::TextFiles texts;
  std::optional<data::TextFiles> eval{};  ///< --eval
  bool is_chat = false;                   ///< conversations
  data::DocumentsSummary summary{};       ///< of texts
};

/// Throws core::Error, or UsageError for flags that don't fit what is read.
[[nodiscard]] TrainData read_data(const TrainOptions& options);

/// Prints what is in it, and notes what of it is not trained on.
[[nodiscard]] std::unique_ptr<train::Dataset> make_dataset(const TrainOptions& options, const TrainData& data);
void print_dataset(const train::Dataset& dataset);

/// Null if these are conversations.
[[nodiscard]] const train::TextDataset* as_text(const train::Dataset& dataset);

/// The loss of a 5-gram by counting.
[[nodiscard]] double count_baseline(const train::TextDataset& dataset, bool several_documents);

/// Of the validation text.
[[nodiscard]] double bytes_per_token(const train::TextDataset& dataset);

}  // namespace folio::apps
