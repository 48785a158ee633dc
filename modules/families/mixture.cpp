// Shapes: B sequences, T positions, N = B T rows, D model width, E experts.
#include "modules/families/mixture.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

using torch::Tensor;

MixtureImpl::MixtureImpl(const core::ModelConfig& config, int64_t n_here, ExpertProducts products,
                         const Linears& linears, const std::string& name)
    : config_(config),
      router_(nullptr),
      selection_(nullptr),
      experts_(nullptr),
      shared_gate_(nullptr),
      shared_(nullptr) {
  core::validate(config, "Mixture");
  core::require(config.n_experts > 0, "Mixture: the configuration has no experts");
  const int64_t E = config.n_experts, D = config.dim;
  const core::MixtureInfo& mixture = core::info(config.family).mixture;
  router_ = register_module("router", NamedTensor("weight", torch::zeros({E, D})));
  if (mixture.selection_bias) {
    selection_ = register_module("selection", NamedTensor("bias", torch::zeros({E}), /*trained=*/false));
  }
  if (mixture.biases) router_->add_bias(torch::zeros({E}));
  experts_ = register_module("experts", Experts(n_here, config, std::move(products)));
  if (config.shared_dim == 0) return;
  if (mixture.shared_gate) shared_gate_ = register_module("shared_gate", NamedTensor("weight", torch::zeros({D})));
  shared_ = register_module("shared", SwiGLU(D, config.shared_dim, linears, name + ".shared"));
}

Tensor MixtureImpl::forward(const Tensor& x_BTD) {
  require_BTD(x_BTD, config_.dim, "Mixture");
  const auto x_ND = x_BTD.flatten(0, 1);
  const Routes routes = route(x_ND);
  const auto chosen_E = routes.experts.flatten().bincount({}, config_.n_experts);
  load_ = {.chosen = load_.chosen.defined() ? load_.chosen + chosen_E : chosen_E,
           .mean_scores = routes.scores.mean(0),
           .n_rows = load_.n_rows + x_ND.size(0)};

  auto y_ND = of_experts(x_ND, routes);
  if (shared_) {
    auto shared_ND = shared_->forward(x_BTD).flatten(0, 1);
    if (shared_gate_) shared_ND = shared_ND * torch::sigmoid(x_ND.mv(shared_gate_->value)).unsqueeze(-1);
    y_ND = y_ND + shared_ND;
  }
  return y_ND.view_as(x_BTD);
}

Tensor MixtureImpl::of_experts(const Tensor& x_ND, const Routes& routes) {
  return experts_->forward(x_ND, routes.experts, routes.weights);
}

std::vector<Mixture> mixtures_of(const torch::nn::Module& model) {
  std::vector<Mixture> mixtures;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto mixture = std::dynamic_pointer_cast<MixtureImpl>(module)) mixtures.emplace_back(std::move(mixture));
  }
  return mixtures;
}

}  // namespace folio::nn
