// A mixture of experts in place of one feed-forward network: a router gives each token some of many SwiGLUs, and a
// shared one may serve all tokens. No token is dropped, however many chose an expert.
//
//     y = Σ g_e w2_e (silu(w1_e x) ⊙ w3_e x) over the K experts that x takes, or with another gate (feed_forward.h),
//       + the shared SwiGLU of x, times sigmoid(shared_gate · x) in families that have that.
//
// With s the softmax or sigmoid of router x: x takes the K experts with the largest s, or s + selection bias (of the
// groups whose two best have the largest sum), and g is s of these, divided by their sum if the model normalizes, times
// route_scale.
//
// Parameters: router.weight [E, D]; experts.{w1,w3}.weight [E, F, D]; experts.w2.weight [E, D, F]; and where the model
// has them router.bias [E], experts.{w1,w3}.bias [E, F], experts.w2.bias [E, D], selection.bias [E], which has no
// gradient, shared_gate.weight [D] and shared.{w1,w2,w3}.weight.
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

/// Σ over each row's experts, [N, D], of x [N, D], experts and weights [N, K], and the stacks w1, w3 and w2; or an
/// undefined tensor where it has no form for these.
using ExpertProducts =
    std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights,
                                const torch::Tensor& w1, const torch::Tensor& w3, const torch::Tensor& w2)>;

/// What the router says of N rows.
struct Routes {
  torch::Tensor scores;   ///< [N, E], of each row and expert
  torch::Tensor experts;  ///< int64 [N, K]: the row's, ascending
  torch::Tensor weights;  ///< [N, K]: their shares in the row's output
};

class MixtureImpl : public torch::nn::Module {
 public:
  /// Without `products` the formula is computed expert by expert. A derived class may have only n_here of the experts
  /// that the router selects. Throws core::Error where the configuration is invalid or has no experts.
  explicit MixtureImpl(const core::ModelConfig& config, ExpertProducts products = {},
                       const Linears& linears = Linears(), const std::string& name = "ffn",
                       std::optional<int64_t> n_here = {});

  /// x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x);
  /// Of x [N, dim], in the type of x, within autocast too: a rounding may choose another expert.
  [[nodiscard]] Routes route(const torch::Tensor& x) const;

  /// What is known of the rows of the forward passes since the last take().
  struct Load {
    torch::Tensor chosen{};       ///< int64 [E]: rows that took each expert; undefined: there was no pass
    torch::Tensor mean_scores{};  ///< [E]: the mean of Routes::scores over the last pass's rows, with its gradient
    int64_t n_rows = 0;
  };
  Load take_load() { return std::exchange(load_, {}); }

  /// [E]; undefined where the family has none
  [[nodiscard]] torch::Tensor& selection_bias() { return selection_; }

 protected:
  /// Σ g_e SwiGLU_e(x) over the experts that x [N, D] takes, [N, D].
  virtual torch::Tensor of_experts(const torch::Tensor& x, const Routes& routes) {
    return own_experts(x, routes.experts, routes.weights);
  }
  /// The same of those that are here, by their places: int64 experts [N, K] and weights [N, K].
  torch::Tensor own_experts(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights);

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 private:
  core::ModelConfig config_;
  ExpertProducts products_;
  torch::Tensor router_, router_bias_, selection_, shared_gate_;
  torch::Tensor w1_, w3_, w2_;  ///< [n_here, F, D], and w2 [n_here, D, F]
  torch::Tensor b1_, b3_, b2_;  ///< [n_here, F], and b2 [n_here, D]; undefined in families that have none
  SwiGLU shared_;
  Load load_;
};
TORCH_MODULE(Mixture);

/// A model's mixtures, in the order of its layers.
[[nodiscard]] std::vector<Mixture> mixtures_of(const torch::nn::Module& model);

}  // namespace folio::nn
