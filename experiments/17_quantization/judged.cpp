#include "experiments/17_quantization/judged.h"

#include <algorithm>

#include "data/corpus.h"
#include "experiments/common/readers_model.h"
#include "infer/engine/perplexity.h"

namespace folio::experiments {

Judged load_judged(const Report& report) {
  ReadersModel reader = readers_model(report);
  const std::vector<int32_t> tokens = reader.tokenizer->encode(data::load_corpus("tinyshakespeare").text);
  const auto validation = data::split_tokens(tokens, 0.1, 0.0).validation;
  const auto count = std::min<size_t>(validation.size(), report.short_form() ? 2048 : 8192);
  const auto first = validation.first(count);
  return {.model = std::move(reader.model), .validation = {first.begin(), first.end()}};
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
  const auto scored = static_cast<size_t>(window - 1);  // every token of a window except the first
  for (size_t begin = 0; begin + scored <= nll.size(); begin += scored) {
    double sum = 0.0;
    for (size_t i = begin; i < begin + scored; ++i) sum += nll[i];
    means.push_back(sum / static_cast<double>(scored));
  }
  return means;
}

}  // namespace folio::experiments
