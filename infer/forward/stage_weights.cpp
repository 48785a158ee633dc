#include "infer/forward/stage_weights.h"

namespace folio::infer {

using core::Role;

LayerRange all_layers(const core::ModelConfig& config) {
  return {0, config.n_layers > 0 ? config.n_layers : config.n_tokens_ahead};
}

bool needed_by(LayerRange range, const core::TensorSpec& spec, const core::ModelConfig& config) {
  const bool is_first = range.first == 0;
  const bool is_last = range.last == all_layers(config).last;
  switch (spec.role) {
    case Role::TokenEmbedding:
      return is_first || (is_last && config.tie_embeddings);
    case Role::OutputNorm:
    case Role::Output:
      return is_last;
    default:
      return spec.layer >= range.first && spec.layer < range.last;
  }
}

std::vector<core::TensorView> matrices_of(const core::TensorView& tensor) {
  if (tensor.shape.size() < 3) return {tensor};
  std::vector<core::TensorView> all;
  for (int64_t i = 0; i < tensor.shape.front(); ++i) {
    all.push_back(core::rows_of(tensor, i, 1));
    all.back().shape.erase(all.back().shape.begin());
  }
  return all;
}

StageWeights::StageWeights(const core::StoredModel& model, LayerRange range, const Load& load)
    : first_layer_(range.first), layers_(static_cast<size_t>(range.last - range.first)) {
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorSpec& spec = manifest[i];
    if (!needed_by(range, spec, model.config)) continue;
    ByRole& place = spec.layer < 0 ? model_ : layers_[static_cast<size_t>(spec.layer - range.first)];
    place[static_cast<size_t>(spec.role)] = load(spec, model.tensors[i]);
  }
  WeightId& embedding = model_[static_cast<size_t>(Role::TokenEmbedding)];
  if (range.last == all_layers(model.config).last && model.config.tie_embeddings) {
    model_[static_cast<size_t>(Role::Output)] = embedding;
  }
  if (range.first != 0) embedding = {};
}

WeightId StageWeights::operator()(Role role, int64_t layer) const {
  const ByRole& place = layer < 0 ? model_ : layers_[static_cast<size_t>(layer - first_layer_)];
  return place[static_cast<size_t>(role)];
}

}  // namespace folio::infer
