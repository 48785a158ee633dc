#include "experiments/32_inside/watched.h"

#include <fmt/format.h>

#include "infer/engine/prompt_report.h"
#include "infer/explain/analysis.h"

namespace folio::experiments {

WatchedModel::Watched WatchedModel::run(std::span<const int32_t> tokens, std::span<const Head> off) {
  infer::explain::Options options;
  for (const Head& one : off) options.experiment.ablate.push_back(fmt::format("{}.{}", one.layer, one.head));
  const infer::explain::Trace prompt{.tokens = {tokens.begin(), tokens.end()}};
  const infer::explain::Interventions silence(runner_, options, prompt);
  const infer::explain::Trace trace = infer::explain::run_traced(runner_, tokens, options, &silence);

  Watched watched;
  const infer::explain::Tensors tensors(runner_.model());
  for (int64_t layer = 0; layer < runner_.config().n_layers; ++layer) {
    const auto all = infer::explain::attention_weights(tensors, layer, trace);  // (heads, T, T)
    const auto size = static_cast<std::ptrdiff_t>(tokens.size() * tokens.size());
    for (auto head = all.begin(); head != all.end(); head += size) watched.weights.emplace_back(head, head + size);
  }
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    watched.losses.push_back(infer::negative_log_likelihood(trace.row(trace.at("logits"), t), tokens[t + 1]));
  }
  return watched;
}

}  // namespace folio::experiments
