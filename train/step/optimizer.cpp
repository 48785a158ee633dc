#include "train/step/optimizer.h"

#include <map>
#include <utility>

#include "core/manifest.h"
#include "train/step/adamw.h"
#include "train/step/galore.h"
#include "train/step/muon.h"

namespace folio::train {

Parameters::Parameters(const torch::nn::Module& model) {
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.value().requires_grad()) all.push_back({.name = parameter.key(), .tensor = parameter.value()});
  }
}

Parameters::Parameters(parallel::RankModel& model) {
  for (const parallel::Piece& piece : model.pieces()) {
    if (!model.owns(piece)) continue;
    Trained trained{.name = piece.name, .tensor = piece.local};
    if (piece.cut_dim >= 0 && piece.by == parallel::Axis::Tensor) {  // expert ranks have whole matrices
      trained.cut_dim = piece.cut_dim;
      trained.ranks = &model.world().along({parallel::Axis::Tensor});
    }
    all.push_back(std::move(trained));
  }
}

Parameters Parameters::filtered(bool matrices_of_blocks) const {
  Parameters some = *this;
  std::erase_if(some.all,
                [&](const Trained& one) { return is_matrix_of_block(one.name, one.tensor) != matrices_of_blocks; });
  return some;
}

std::vector<Optimizer::State> whole_state(const Optimizer& optimizer, parallel::RankModel& model) {
  if (model.is_whole() && model.zero().stage() == 0) return optimizer.state();
  std::map<std::string, torch::Tensor> own;
  for (const Optimizer::State& state : optimizer.state()) own.emplace(state.name, state.tensor);
  std::vector<Optimizer::State> all;
  for (const core::TensorSpec& spec : core::tensor_manifest(model.config())) {
    for (const char* kind : {"exp_avg.", "exp_avg_sq.", "momentum_buffer."}) {
      const std::string name = kind + spec.module_name;
      const auto found = own.find(name);
      const torch::Tensor local = found == own.end() ? torch::Tensor() : found->second;
      const torch::Tensor value = model.gather(spec.module_name, local, spec.shape);
      if (model.world().is_first() && value.defined()) all.push_back({name, value.to(torch::kCPU).clone()});
    }
  }
  return all;
}

bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter) {
  return parameter.dim() >= 2 && name.starts_with("layers.") && !name.ends_with(".bias");  // experts' biases are 2-D
}

std::unique_ptr<Optimizer> make_optimizer(const Parameters& parameters, const TrainConfig& config) {
  if (config.optimizer == OptimizerKind::Muon) return std::make_unique<Muon>(parameters, config);
  if (config.optimizer == OptimizerKind::GaLore) return std::make_unique<GaLore>(parameters, config);
  return std::make_unique<AdamW>(parameters, config);
}

}  // namespace folio::train
