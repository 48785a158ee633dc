#include "experiments/common/readers_model.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/paths.h"
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

}  // namespace folio::experiments
