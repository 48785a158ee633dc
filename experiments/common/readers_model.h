// The model that studies of the engine use: the newest in runs/, found in the same way as by build/generate. The short
// form uses the small model of the engine's tests.
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
