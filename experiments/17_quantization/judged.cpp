#include "experiments/17_quantization/judged.h"

#include <algorithm>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/paths.h"
#include "data/corpus.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/engine/perplexity.h"

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

Judged load_judged(bool short_form) {
  const std::filesystem::path path =
      short_form ? core::folio_home() / "tests" / "golden" / "shakespeare_48" : newest_run();
  Judged judged{.model = core::read_model(path), .validation = {}};
  const auto tokenizer =
      judged.model.gguf ? data::tokenizer_from_gguf(*judged.model.gguf) : data::tokenizer_from_hf(path);
  const std::vector<int32_t> tokens = tokenizer->encode(data::load_corpus("tinyshakespeare").text);
  const auto validation = data::split_tokens(tokens, 0.1, 0.0).validation;
  const auto count = std::min<size_t>(validation.size(), short_form ? 2048 : 8192);
  judged.validation.assign(validation.begin(), validation.begin() + static_cast<std::ptrdiff_t>(count));
  return judged;
}

std::vector<double> losses(const core::StoredModel& model, const std::vector<int32_t>& tokens, infer::Cpu& cpu) {
  const int64_t window = std::min<int64_t>(256, model.config.context_length);
  infer::Engine engine(model, cpu, {.max_positions = window});
  std::vector<double> nll;
  infer::score_windows(engine, tokens, window, [&](std::span<const double> log_probs) {
    for (const double log_prob : log_probs) nll.push_back(-log_prob);
    return true;
  });
  std::vector<double> means;
  const auto scored = static_cast<size_t>(window - 1);  // of a window, all but its first token
  for (size_t begin = 0; begin + scored <= nll.size(); begin += scored) {
    double sum = 0.0;
    for (size_t i = begin; i < begin + scored; ++i) sum += nll[i];
    means.push_back(sum / static_cast<double>(scored));
  }
  return means;
}

}  // namespace folio::experiments
