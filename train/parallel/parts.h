// Which part of a model a mesh gives to a rank.
//
//   pipeline   ranges of layers               tensor   heads and hidden numbers: rows of wq, wk, wv, w1, w3, columns of
//   expert     experts of each mixture                 wo, w2 (Shoeybi et al., "Megatron-LM", 2019, section 3)
//   data, context: nothing is cut
#pragma once

#include <memory>
#include <string>

#include "train/config/train_config.h"
#include "train/fused/parts.h"
#include "train/parallel/chunk.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

/// What a rank has of each layer, with the names of the whole model's parameters. Only a model that is trained has
/// fused blocks and ends.
[[nodiscard]] std::shared_ptr<const nn::Parts> rank_parts(const TrainConfig& config, World& world,
                                                          std::shared_ptr<const nn::Linears> linears, bool is_trained);

/// How the rank holds the parameter of this name.
[[nodiscard]] Piece piece_of(const std::string& name, const torch::Tensor& local, const core::ModelConfig& config,
                             const Mesh& mesh);

}  // namespace folio::train::parallel
