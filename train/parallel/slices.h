// Which tokens of a batch a rank has. Data and expert ranks divide its rows; context and then tensor ranks its
// positions. For context parallelism T positions are cut into 2C chunks, of which rank c has chunk c and chunk
// 2C - 1 - c ("zigzag"): under the causal mask a late chunk has more to look at than an early one, and so all ranks
// have the same work (Brandon et al., "Striped Attention", 2023, section 3; zigzag: Llama 3, 2024, section 3.3.2).
//
//   C = 2, t = 2, T = 8:   positions   0 1 | 2 3 | 4 5 | 6 7
//                          context     0     1     1     0
//                          tensor      0 0   0 0   1 1   1 1
#pragma once

#include <torch/types.h>

#include "data/batches.h"
#include "train/parallel/mesh.h"

namespace folio::train {

/// A batch as int64 tensors [rows, length] on `device`.
struct TensorBatch {
  torch::Tensor inputs_BT;
  torch::Tensor targets_BT;
  torch::Tensor starts_BT;  ///< undefined where the batch has none
};
[[nodiscard]] TensorBatch to_tensors(const data::Batch& batch, torch::Device device);

}  // namespace folio::train

namespace folio::train::parallel {

/// The rank's tokens [rows / (data · expert), length / (context · tensor)], and `starts`, where there are, of its
/// context rank's positions [.., length / context]. A batch that the mesh does not divide is filled up with targets
/// that don't count.
[[nodiscard]] TensorBatch slice_of(const TensorBatch& whole, const Mesh& mesh);

}  // namespace folio::train::parallel
