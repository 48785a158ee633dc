// The model that the engine's studies run: the reader's own, the newest in runs/ as build/generate finds it. In short
// form, where there may be none, the small one that the engine's tests have.
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

/// Says which it is. Throws core::Error that says how to make one if there is no run yet.
[[nodiscard]] ReadersModel readers_model(const Report& report);

}  // namespace folio::experiments
