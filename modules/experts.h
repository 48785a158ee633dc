// A mixture of experts in place of one feed-forward network: a router gives each token some of many SwiGLUs, and a
// shared one may serve all tokens. Each token gets all experts that it chose, however many others chose them, too:
// capacity never drops one.
// The plain form is the formula written out; the fused form, the default, has one product for each expert, of the rows
// that chose it (fused/experts.h).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/model_config.h"
#include "modules/attention.h"
#include "modules/named_tensor.h"
#include "modules/swiglu.h"

namespace folio::nn {

namespace fused {
struct ExpertOperands;
}

/// What the router says of N rows.
struct Routes {
  torch::Tensor scores;   ///< [N, E], of each row and expert
  torch::Tensor experts;  ///< int64 [N, K]: the row's, ascending
  torch::Tensor weights;  ///< [N, K]: their shares in the row's output
};

/// y = Σ g_e w2_e (silu(w1_e x) ⊙ w3_e x), or with another gate (swiglu.h), over the K experts that x takes, + the
/// shared SwiGLU of x, times sigmoid(shared_gate · x) in families that have that. With s = softmax(router x), or the
/// sigmoid of each number: x takes the K experts with the largest s, or s + selection bias (of the groups whose two
/// best have the largest sum), and g is s of these, divided by their sum if the model normalizes, times route_scale. In
/// some families the router and each matrix of an expert have biases. Sources: Shazeer et al., "Outrageously Large
/// Neural Networks", 2017; Fedus et al., "Switch Transformers", 2021, section 2; groups, shared experts and the
/// selection bias: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2. Parameters: router.weight [E, D];
/// experts.{w1,w3}.weight [E, F, D]; experts.w2.weight [E, D, F]; and where the model has them router.bias [E],
/// experts.{w1,w3}.bias [E, F], experts.w2.bias [E, D], selection.bias [E], which has no gradient, shared_gate.weight
/// [D] and shared.{w1,w2,w3}.weight.
class MixtureImpl : public torch::nn::Module {
 public:
  /// Throws core::Error where the configuration is invalid or has no experts.
  explicit MixtureImpl(const core::ModelConfig& config);

  /// x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x);

  Form form = Form::Fused;

  /// Of x [N, dim], in the type of x, within autocast too: a rounding may choose another expert.
  [[nodiscard]] Routes route(const torch::Tensor& x) const;

  /// What is known of the rows of the forward passes since the last take().
  struct Load {
    torch::Tensor chosen{};       ///< int64 [E]: rows that took each expert; undefined: there was no pass
    torch::Tensor mean_scores{};  ///< [E]: the mean of Routes::scores over the last pass's rows, with its gradient
    int64_t n_rows = 0;
  };
  Load take_load() { return std::exchange(load_, {}); }

  /// [E]; empty where the family has none
  [[nodiscard]] NamedTensor& selection_bias() { return selection_; }

 protected:
  /// Of the experts only this many are here, and experts.{w1,w3,w2}.weight are theirs; the router knows all.
  MixtureImpl(const core::ModelConfig& config, int64_t n_here);

  /// Σ g_e SwiGLU_e(x) over the experts that x [N, D] takes, [N, D].
  virtual torch::Tensor of_experts(const torch::Tensor& x, const Routes& routes);
  /// The same over experts that are here, by their places: experts, int64, and weights [N, K].
  torch::Tensor of_experts_here(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights);

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 private:
  core::ModelConfig config_;
  NamedTensor router_, selection_, w1_, w3_, w2_, shared_gate_;
  SwiGLU shared_;
  std::shared_ptr<fused::ExpertOperands> operands_;
  Load load_;
};
TORCH_MODULE(Mixture);

/// A model's mixtures, in the order of its layers.
[[nodiscard]] std::vector<Mixture> mixtures_of(const torch::nn::Module& model);

}  // namespace folio::nn
