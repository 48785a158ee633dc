#include "experiments/32_inside/watched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "infer/explain/analysis.h"

namespace folio::experiments {

WatchedModel::Watched WatchedModel::run(std::span<const int32_t> tokens, std::span<const Head> off) {
  const core::ModelConfig& c = runner_.config();
  const auto head_dim = static_cast<size_t>(c.head_dim);
  const auto silence = [&](const std::string& name, std::span<float> values, const infer::explain::Trace&) {
    bool changed = false;
    for (const Head& one : off) {
      if (name != fmt::format("layers.{}.heads", one.layer)) continue;
      const size_t width = values.size() / tokens.size(), first = static_cast<size_t>(one.head) * head_dim;
      for (size_t t = 0; t < tokens.size(); ++t) std::ranges::fill(values.subspan(t * width + first, head_dim), 0.0F);
      changed = true;
    }
    return changed;
  };
  const infer::explain::Trace trace = infer::explain::run_traced(runner_, tokens, {}, silence);

  Watched watched;
  for (int64_t layer = 0; layer < c.n_layers; ++layer) {
    const auto all = infer::explain::attention_weights(runner_.model(), layer, trace);  // (heads, T, T)
    const auto size = static_cast<std::ptrdiff_t>(tokens.size() * tokens.size());
    for (auto head = all.begin(); head != all.end(); head += size) watched.weights.emplace_back(head, head + size);
  }
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const auto logits = trace.row(trace.at("logits"), t);
    const double largest = *std::ranges::max_element(logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(logit - largest);
    watched.losses.push_back(largest + std::log(sum) - logits[static_cast<size_t>(tokens[t + 1])]);
  }
  return watched;
}

}  // namespace folio::experiments
