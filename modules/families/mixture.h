// Mixture of experts: a router selects K of E SwiGLUs, the experts, for each token. A shared SwiGLU may process all
// tokens. There is no expert capacity: no token is ever dropped.
//
//     y = Σ g_e w2_e (silu(w1_e x) ⊙ w3_e x)     over the K selected experts e; other gates in feed_forward.h
//       + sigmoid(shared_gate · x) shared(x)     in families with a shared expert; some have no gate for it
//
// Routing: s = softmax(router x) or sigmoid(router x). Selects the K experts with the largest s + selection bias; with
// expert groups, only from the best groups, ranked by the sum of their two largest s + bias (DeepSeek-V2: only by the
// largest). g is s of the selected experts, divided by their sum if the model normalizes, times route_scale.
//
// Parameters: router.weight [E, D], experts.{w1,w3}.weight [E, F, D], experts.w2.weight [E, D, F]. Optional:
// router.bias [E], experts.{w1,w3}.bias [E, F], experts.w2.bias [E, D], selection.bias [E] (no gradient),
// shared_gate.weight [D], shared.{w1,w2,w3}.weight.
// Sources: Shazeer et al., "Outrageously Large Neural Networks", 2017; Fedus et al., "Switch Transformers", 2021,
// section 2; groups and the selection bias: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model_config.h"
#include "modules/swiglu.h"

namespace folio::nn {

/// A function that returns each row's weighted sum of expert outputs, [N, D], for x [N, D], expert indices and weights
/// [N, K], and the stacked matrices w1, w3, w2. Returns an undefined tensor for unsupported inputs.
using ExpertProducts =
    std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights,
                                const torch::Tensor& w1, const torch::Tensor& w3, const torch::Tensor& w2)>;

/// The router's result for N rows.
struct Routes {
  torch::Tensor scores;   ///< [N, E]: softmax or sigmoid of the router's logits
  torch::Tensor experts;  ///< int64 [N, K]: the selected experts, ascending in each row
  torch::Tensor weights;  ///< [N, K]: the weights g of the selected experts
};

class MixtureImpl : public torch::nn::Module {
 public:
  /// Creates a mixture. `products` computes the experts' outputs; the default is a loop. `n_here` is the number of
  /// experts held by this module, by default all. Throws core::Error if the configuration is invalid or has no experts.
  explicit MixtureImpl(const core::ModelConfig& config, ExpertProducts products = {},
                       const Linears& linears = Linears(), const std::string& name = "ffn",
                       std::optional<int64_t> n_here = {});

  /// Maps x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x);
  /// Routes the rows of x [N, dim]. Computes in x's type even under autocast, as rounding could change the selection.
  [[nodiscard]] Routes route(const torch::Tensor& x) const;

  /// Statistics of the rows routed since the last take_load().
  struct Load {
    torch::Tensor chosen{};  ///< int64 [E]: rows routed to each expert; undefined before the first pass
    torch::Tensor scores{};  ///< [B, T, E]: Routes::scores of the last pass, differentiable
    int64_t n_rows = 0;
  };
  Load take_load() { return std::exchange(load_, {}); }

  /// Returns the bias [E] added to scores for selection; undefined in families without one.
  [[nodiscard]] torch::Tensor& selection_bias() { return selection_; }

 protected:
  /// Returns, for each row of x [N, D], the sum Σ g_e SwiGLU_e(x) over its selected experts, [N, D].
  virtual torch::Tensor of_experts(const torch::Tensor& x, const Routes& routes) {
    return local_expert_sum(x, routes.experts, routes.weights);
  }
  /// Returns Σ g_e SwiGLU_e(x) over the experts that this module holds, [N, D]. `experts`, int64 [N, K], contains the
  /// indices e in this module's weights, from 0 to n_here - 1, and `weights`, [N, K], the factors g_e.
  torch::Tensor local_expert_sum(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights);

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 private:
  core::ModelConfig config_;
  ExpertProducts products_;
  torch::Tensor router_, router_bias_, selection_, shared_gate_;
  torch::Tensor w1_, w3_, w2_;  ///< [n_here, F, D], and w2 [n_here, D, F]; n_here: experts that this module holds
  torch::Tensor b1_, b3_, b2_;  ///< [n_here, F], and b2 [n_here, D]; undefined in families without biases
  SwiGLU shared_;
  Load load_;
};
TORCH_MODULE(Mixture);

/// Returns a model's mixture modules in layer order.
[[nodiscard]] std::vector<Mixture> mixtures_of(const torch::nn::Module& model);

}  // namespace folio::nn
