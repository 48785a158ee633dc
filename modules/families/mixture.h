// A mixture of experts in place of one feed-forward network: a router (router.h) gives each token some of many SwiGLUs,
// and a shared one may serve all tokens. Each token gets all experts that it chose, however many others chose them,
// too: capacity never drops one.
//
//     y = Σ g_e w2_e (silu(w1_e x) ⊙ w3_e x) over the K experts that x takes, or with another gate (feed_forward.h),
//       + the shared SwiGLU of x, times sigmoid(shared_gate · x) in families that have that.
//
// Parameters: router.weight [E, D]; experts.{w1,w3}.weight [E, F, D]; experts.w2.weight [E, D, F]; and where the model
// has them router.bias [E], experts.{w1,w3}.bias [E, F], experts.w2.bias [E, D], selection.bias [E], which has no
// gradient, shared_gate.weight [D] and shared.{w1,w2,w3}.weight. Sources: router.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "modules/families/experts.h"
#include "modules/families/router.h"
#include "modules/swiglu.h"

namespace folio::nn {

class MixtureImpl : public torch::nn::Module {
 public:
  /// Without `products` the formula is computed expert by expert. Throws core::Error where the configuration is invalid
  /// or has no experts.
  explicit MixtureImpl(const core::ModelConfig& config, ExpertProducts products = {},
                       const Linears& linears = Linears(), const std::string& name = "ffn")
      : MixtureImpl(config, config.n_experts, std::move(products), linears, name) {}

  /// x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x);
  [[nodiscard]] Routes route(const torch::Tensor& x) const { return nn::route(config_, x, router_, selection_); }

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
  /// Of the experts only n_here are here, and experts.{w1,w3,w2}.weight are theirs; the router knows all.
  MixtureImpl(const core::ModelConfig& config, int64_t n_here, ExpertProducts products, const Linears& linears,
              const std::string& name);

  /// Σ g_e SwiGLU_e(x) over the experts that x [N, D] takes, [N, D].
  virtual torch::Tensor of_experts(const torch::Tensor& x, const Routes& routes);
  [[nodiscard]] Experts& own_experts() { return experts_; }

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 private:
  core::ModelConfig config_;
  NamedTensor router_, selection_;
  Experts experts_;
  NamedTensor shared_gate_;
  SwiGLU shared_;
  Load load_;
};
TORCH_MODULE(Mixture);

/// A model's mixtures, in the order of its layers.
[[nodiscard]] std::vector<Mixture> mixtures_of(const torch::nn::Module& model);

}  // namespace folio::nn
