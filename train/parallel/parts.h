// Which part of a model a mesh gives to a rank.
//
//   pipeline   ranges of layers               tensor   heads and hidden numbers: rows of wq, wk, wv, w1, w3, columns of
//   expert     experts of each mixture                 wo, w2 (Shoeybi et al., "Megatron-LM", 2019, section 3)
//   data, context: nothing is cut
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/config/train_config.h"
#include "train/fused/parts.h"
#include "train/parallel/chunk.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

/// Throws core::UsageError as validate() does for the configuration on this mesh.
void require_fits(TrainConfig config, const MeshShape& shape);

/// What stands in a block's place, with its parameters (sharded.h).
using BlockWrapper = std::function<nn::Block(nn::Block block, int64_t layer)>;

/// What is fused of a model that is trained.
[[nodiscard]] fused::Fusion fusion_of(const TrainConfig& config);

/// What a rank has of each layer, with the names of the whole model's parameters. `wrap` may be empty.
[[nodiscard]] std::shared_ptr<const nn::Parts> rank_parts(const TrainConfig& config, World& world, fused::Fusion fusion,
                                                          std::shared_ptr<const nn::Linears> linears,
                                                          BlockWrapper wrap);

/// How the rank holds the parameter of this name.
[[nodiscard]] Piece piece_of(const std::string& name, const torch::Tensor& local, const core::ModelConfig& config,
                             const Mesh& mesh);

}  // namespace folio::train::parallel
