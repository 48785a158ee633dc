// LibTorch against the engine: the same tokens through both, compared at each named intermediate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/engine.h"
#include "modules/llama.h"

namespace folio::train {

/// How far apart two tensors are at one place of the model.
struct Divergence {
  std::string name;         ///< "layers.0.attention_residual"
  double relative_error;    ///< max |engine - libtorch| / root mean square of LibTorch's
  int64_t position;         ///< of the token where they are furthest apart
  int64_t index;            ///< within that token's vector
  double libtorch, engine;  ///< both values there
};

/// The intermediates of one sequence of tokens, in the order of the forward pass.
/// Throws core::Error if the two sides don't show the same places.
[[nodiscard]] std::vector<Divergence> compare_forward(nn::Llama& reference, infer::Engine& engine,
                                                      std::span<const int32_t> tokens);

/// The greedy continuation by LibTorch, computed anew for each token: at most `n` tokens, never one of `never`.
[[nodiscard]] std::vector<int32_t> greedy_by_libtorch(nn::Llama& model, std::span<const int32_t> prompt, int64_t n,
                                                      std::span<const int32_t> never);

/// The mean loss over the split's consecutive windows, as split_loss(), by the engine.
[[nodiscard]] double split_loss_by_engine(infer::Engine& engine, std::span<const int32_t> split, int64_t window,
                                          int64_t max_windows);

}  // namespace folio::train
