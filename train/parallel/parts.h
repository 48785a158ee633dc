// The part of a model that a rank stores, for each kind of parallelism (tensor: "Megatron-LM", 2019, section 3):
//   pipeline        ranges of layers
//   tensor          some heads and hidden units: rows of wq, wk, wv, w1 and w3, columns of wo and w2
//   expert          some experts of each mixture
//   data, context   all parameters
#pragma once

#include <memory>
#include <string>

#include "train/config/train_config.h"
#include "train/fused/parts.h"
#include "train/parallel/chunk.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

/// Returns a factory that creates this rank's part of each layer. Parameters have the same names as in the whole model.
/// Blocks, and the final norm with head and loss, are fused only if `is_trained`.
[[nodiscard]] std::shared_ptr<const nn::Parts> rank_parts(const TrainConfig& config, World& world,
                                                          std::shared_ptr<const nn::Linears> linears, bool is_trained);

/// Returns a description of `local`, this rank's part of the parameter with this name in the whole model.
[[nodiscard]] Piece piece_of(const std::string& name, const torch::Tensor& local, const core::ModelConfig& config,
                             const Mesh& mesh);

}  // namespace folio::train::parallel
