#include "experiments/common/readers_model.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/paths.h"
#include "data/tokenizers/tokenizer_files.h"

namespace folio::experiments {

ReadersModel readers_model(const Report& report) {
  const auto path = report.short_form() ? core::folio_home() / "tests/golden/shakespeare_48" : core::newest_model();
  ReadersModel it{.model = core::read_model(path), .tokenizer = nullptr};
  core::require(!core::is_llama2c(it.model.format), "{}: it has no tokenizer in it; train a model anew", path.string());
  it.tokenizer = it.model.gguf ? data::tokenizer_from_gguf(*it.model.gguf) : data::tokenizer_from_hf(path);
  report.say(fmt::format("model {}: {} parameters", path.string(), core::parameter_count(it.model.config)));
  return it;
}

}  // namespace folio::experiments
