#include "experiments/common/readers_model.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/paths.h"
#include "core/random.h"
#include "data/tokenizers/tokenizer_files.h"

namespace folio::experiments {

namespace {

std::filesystem::path newest_run() {
  try {
    return core::newest_model();
  } catch (const core::Error&) {
    core::fail(
        "there is no model in {} yet: train one with build/train tinyshakespeare, or take --short, which runs on a "
        "small model of the tests",
        core::runs_directory().string());
  }
}

}  // namespace

ReadersModel readers_model(const Report& report) {
  const auto path = report.short_form() ? core::folio_home() / "tests/golden/shakespeare_48" : newest_run();
  ReadersModel it{.model = core::read_model(path), .tokenizer = nullptr};
  core::require(!core::is_llama2c(it.model.format), "{}: it has no tokenizer in it; train a model anew", path.string());
  it.tokenizer = it.model.gguf ? data::tokenizer_from_gguf(*it.model.gguf) : data::tokenizer_from_hf(path);
  report.say(fmt::format("model {}: {} parameters", path.string(), core::parameter_count(it.model.config)));
  return it;
}

std::optional<ReadersModel> smollm2(const Report& report, const std::string& what) {
  const auto path = core::data_directory() / "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    report.say(what + ": left out, since there is no " + path.string() + "; make smollm2 fetches it");
    return {};
  }
  core::StoredModel model = core::read_model(path);
  auto tokenizer = data::tokenizer_from_gguf(*model.gguf);
  return ReadersModel{.model = std::move(model), .tokenizer = std::move(tokenizer)};
}

std::vector<infer::GenerateResult> completed(infer::Engine& engine, std::vector<infer::Request> requests) {
  std::vector<infer::RequestId> ids;
  for (infer::Request& request : requests) ids.push_back(engine.add(std::move(request)));
  while (engine.step()) continue;
  std::vector<infer::GenerateResult> results;
  for (const infer::RequestId id : ids) results.push_back(engine.take(id));
  return results;
}

std::vector<float> logits_of(infer::Engine& engine, std::vector<int32_t> tokens) {
  std::vector<float> all;
  infer::Request request{.prompt = std::move(tokens)};
  request.on_logits = [&](std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); };
  const infer::RequestId id = engine.add(std::move(request));
  while (engine.step()) continue;
  engine.drop(id);
  return all;
}

core::StoredModel random_model(const core::ModelConfig& config, uint64_t seed) {
  const auto weights = std::make_shared<core::Weights>(core::Weights{.config = config, .tensors = {}});
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    std::vector<float>& values = weights->tensors.emplace_back(static_cast<size_t>(spec.elements()), 1.0F);
    if (spec.shape.size() == 1) continue;  // a norm's weight stays 1
    const double scale = std::sqrt(3.0 / static_cast<double>(spec.shape.back()));
    const uint64_t tensor_seed = core::random_bits(seed, weights->tensors.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(scale * (2.0 * core::random_uniform(tensor_seed, i) - 1.0));
    }
  }
  return {"random weights", core::ModelFormat::Gguf, config, weights->views(), {weights}, nullptr};
}

}  // namespace folio::experiments
