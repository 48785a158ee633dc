// Loads the model that studies of the inference engine use: the newest in runs/, which build/generate also uses by
// default. In short form, this is the small model of the engine's tests.
#pragma once

#include <memory>

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "experiments/common/report.h"

namespace folio::experiments {

struct ReadersModel {
  core::StoredModel model;
  std::unique_ptr<data::Tokenizer> tokenizer;
};

/// Loads the model and prints its path. Throws core::Error if runs/ has no model, or if the model has no tokenizer.
[[nodiscard]] ReadersModel readers_model(const Report& report);

}  // namespace folio::experiments
