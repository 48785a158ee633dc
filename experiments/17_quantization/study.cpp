#include "experiments/17_quantization/study.h"

#include <algorithm>
#include <span>

#include "infer/engine/perplexity.h"

namespace folio::experiments {

std::vector<double> Study::losses_of(const core::StoredModel& quantized) {
  const int64_t window = std::min<int64_t>(256, quantized.config.context_length);
  infer::Engine engine(quantized, cpu, {.max_positions = window});
  std::vector<double> all, means;
  infer::score_windows(engine, validation, window, [&](std::span<const double> log_probs) {
    all.insert(all.end(), log_probs.begin(), log_probs.end());
    return true;
  });
  const auto scored = static_cast<size_t>(window - 1);  // every token of a window except the first
  for (size_t begin = 0; begin + scored <= all.size(); begin += scored) {
    means.push_back(-mean_of(std::span(all).subspan(begin, scored)));
  }
  return means;
}

std::string name_of(core::DType type) { return std::string(core::info(type).name); }

std::string kind_of(const core::TensorSpec& spec) {
  const size_t end = spec.gguf_name.rfind('.');
  const size_t begin = spec.gguf_name.rfind('.', end - 1);
  return begin == std::string::npos ? spec.gguf_name.substr(0, end) : spec.gguf_name.substr(begin + 1, end - begin - 1);
}

std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model) {
  std::map<std::string, std::vector<float>> kinds;
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t t = 0; t < manifest.size(); ++t) {
    if (manifest[t].shape.size() < 2) continue;
    const std::vector<float> values = core::to_floats(model.tensors[t]);
    auto& all = kinds[kind_of(manifest[t])];
    all.insert(all.end(), values.begin(), values.end());
  }
  return kinds;
}
}  // namespace folio::experiments
