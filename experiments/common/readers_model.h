// Loads the model that studies of the inference engine use: the newest in runs/, which build/generate also uses by
// default. In short form, this is the small model of the engine's tests. Also makes models with random weights, and
// runs requests on an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "experiments/common/report.h"
#include "infer/engine/engine.h"

namespace folio::experiments {

struct ReadersModel {
  core::StoredModel model;
  std::unique_ptr<data::Tokenizer> tokenizer;
};

/// Loads the model and prints its path. Throws core::Error if runs/ has no model, or if the model has no tokenizer.
[[nodiscard]] ReadersModel readers_model(const Report& report);

/// Loads SmolLM2. If `make smollm2` has not downloaded it, prints that `what` is left out and returns nullopt.
[[nodiscard]] std::optional<ReadersModel> smollm2(const Report& report, const std::string& what);

/// Runs the requests in one batch to their ends. Returns the first output of each.
[[nodiscard]] std::vector<infer::GenerateResult> completed(infer::Engine& engine, std::vector<infer::Request> requests);

/// Returns the logits after each token, (tokens, vocab_size).
[[nodiscard]] std::vector<float> logits_of(infer::Engine& engine, std::vector<int32_t> tokens);

/// Returns a model with random weights, in memory. The work of a forward pass doesn't depend on the weights.
[[nodiscard]] core::StoredModel random_model(const core::ModelConfig& config, uint64_t seed);

}  // namespace folio::experiments
