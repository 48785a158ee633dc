// The modules of the exercises. Parameters and sizes are given here; the reader writes each function in its own file in
// this folder. Shapes: B sequences, T positions, D model width, H query heads, G key/value heads, K
// elements in a head.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/model_config.h"
#include "experiments/exercises/unfilled.h"
#include "modules/llama.h"

namespace folio::exercises {

using torch::Tensor;

/// RMSNorm: y = x / sqrt(mean of x² over the last dimension + eps) · weight.
struct RMSNormImpl : torch::nn::Module {
  explicit RMSNormImpl(int64_t dim, double its_eps = 1e-5) : eps(its_eps) {
    weight = register_parameter("weight", torch::ones(dim));
  }
  Tensor forward(const Tensor& x);  ///< [..., D] to [..., D]; to be implemented in rms_norm.cpp

  Tensor weight;  ///< [D]
  double eps;
};
TORCH_MODULE(RMSNorm);

/// Rotary position embedding (RoPE), which rotates pairs of adjacent elements.
struct RopeImpl : torch::nn::Module {
  RopeImpl(int64_t its_context_length, int64_t its_head_dim, double its_theta = 10000.0)
      : context_length(its_context_length), head_dim(its_head_dim), theta(its_theta) {}
  /// Returns x with RoPE applied, for positions from first_position on. To be implemented in rope.cpp.
  Tensor apply(const Tensor& x_BTHK, int64_t first_position = 0) const;

  int64_t context_length, head_dim;
  double theta;
};
TORCH_MODULE(Rope);

inline torch::nn::Linear linear(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

/// The SwiGLU feed-forward: y = w2 (silu(w1 x) · w3 x).
struct SwiGLUImpl : torch::nn::Module {
  SwiGLUImpl(int64_t dim, int64_t hidden_dim)
      : w1(register_module("w1", linear(dim, hidden_dim))),
        w2(register_module("w2", linear(hidden_dim, dim))),
        w3(register_module("w3", linear(dim, hidden_dim))) {}
  Tensor forward(const Tensor& x_BTD);  ///< returns [B, T, D]; to be implemented in swiglu.cpp

  torch::nn::Linear w1, w2, w3;
};
TORCH_MODULE(SwiGLU);

/// A function that applies RoPE to x [B, T, heads, K] at positions 0 to T - 1. The tests of attention use Folio's RoPE.
using Rotate = std::function<Tensor(const Tensor& x)>;

/// Causal grouped-query attention. `its_rotate` applies RoPE to queries and keys.
struct AttentionImpl : torch::nn::Module {
  AttentionImpl(const core::ModelConfig& c, Rotate its_rotate)
      : n_heads(c.n_heads),
        n_kv_heads(c.n_kv_heads),
        head_dim(c.head_dim),
        rotate(std::move(its_rotate)),
        wq(register_module("wq", linear(c.dim, c.n_heads * c.head_dim))),
        wk(register_module("wk", linear(c.dim, c.n_kv_heads * c.head_dim))),
        wv(register_module("wv", linear(c.dim, c.n_kv_heads * c.head_dim))),
        wo(register_module("wo", linear(c.n_heads * c.head_dim, c.dim))) {}
  Tensor weights(const Tensor& x_BTD);  ///< returns [B, H, T, T]; to be implemented in attention.cpp
  Tensor forward(const Tensor& x_BTD);  ///< returns [B, T, D]; to be implemented in attention.cpp

  int64_t n_heads, n_kv_heads, head_dim;
  Rotate rotate;
  torch::nn::Linear wq, wk, wv, wo;
};
TORCH_MODULE(Attention);

/// A layer of the Llama. To run a part, call its forward(), for example parts_.attention.forward(x).
struct BlockImpl : nn::BlockImpl {
  using nn::BlockImpl::BlockImpl;
  Tensor forward(const Tensor& x_BTD, const Tensor& /*starts*/ = {}) override { return layer(x_BTD); }
  Tensor layer(const Tensor& x_BTD);  ///< returns [B, T, D]; to be implemented in block.cpp
};
TORCH_MODULE(Block);

/// Returns a layer made of the given parts, as the nn::Block that nn::Llama requires.
inline nn::Block layer_of(const nn::BlockParts& parts) {
  return nn::Block(std::shared_ptr<nn::BlockImpl>(Block(parts).ptr()));
}

/// Creates the layers of an nn::Llama from the reader's modules.
struct MyParts : nn::Parts {
  nn::BlockParts block_parts(const core::ModelConfig& c, nn::RopeCache ours,
                             int64_t layer) const override;  ///< to be implemented in modules/llama.cpp
  nn::Block block(const core::ModelConfig& c, nn::RopeCache ours, int64_t layer) const override {
    return layer_of(block_parts(c, std::move(ours), layer));
  }
};

}  // namespace folio::exercises
