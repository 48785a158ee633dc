// A rank's slice of a batch. Rows are divided among data and expert ranks. Positions are divided among context ranks
// (two chunks each, context.h), and a context rank's positions among its tensor ranks.
//
//   2 × 2 ranks:           positions   0 1 | 2 3 | 4 5 | 6 7
//                          context     0     1     1     0
//                          tensor      0 0   0 0   1 1   1 1
#pragma once

#include <torch/types.h>

#include "data/batches.h"
#include "train/parallel/mesh.h"

namespace folio::train {

/// A batch as int64 tensors [rows, length]. to_tensors() copies a data::Batch to such tensors on a device.
struct TensorBatch {
  torch::Tensor inputs_BT;
  torch::Tensor targets_BT;
  torch::Tensor starts_BT;  ///< position where each token's sequence begins (modules/mask.h); undefined: not packed
};
[[nodiscard]] TensorBatch to_tensors(const data::Batch& batch, torch::Device device);

/// Returns the rank's inputs and targets [rows / (data · expert), length / (context · tensor)], and starts_BT, if any,
/// [rows / (data · expert), length / context]. Pads rows and length until they are divisible, with ignored targets.
[[nodiscard]] TensorBatch slice_of(const TensorBatch& whole, const parallel::Mesh& mesh);

}  // namespace folio::train
