// Pipeline parallelism: each rank has some of the layers, and microbatches pass from rank to rank, in the order of a
// Schedule.
//
//   rank 0: layers 0, 1          rank 1: layers 2, 3          rank 2: layers 4, 5
//   embeddings                                                norm, head, loss
//      x = f(tokens) ── x [B, T, D] ──▶ x = f(x) ── x ──────────▶ loss = f(x)
//      backward(dx) ◀── dx ─────────── backward(dx) ◀── dx ────── backward
//
// With v chunks of layers in each rank, chunk c of the last rank sends to chunk c + 1 of the first. A rank sends
// B · T · D elements for each microbatch, chunk and direction, and waits while the pipeline fills up and empties.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "train/parallel/group.h"
#include "train/parallel/schedule.h"

namespace folio::train::parallel {

struct StageWork {
  std::vector<int64_t> shape;  ///< of what is sent from stage to stage, for every microbatch
  torch::ScalarType type;
  /// A microbatch through the layers of a chunk: from x of the previous stage, undefined in the first, to that of the
  /// next, and in the last to the loss.
  std::function<torch::Tensor(int64_t chunk, int64_t microbatch, const torch::Tensor& x)> forward;
};

/// Runs the actions of this rank, of at least two in `line`, without backward passes where no graph is recorded; chunk
/// c of rank r is stage c · line.size() + r of the model. Adds to the gradients of what `forward` used. What a
/// microbatch sends back is held until the end: B · T · D elements. Throws as Group does.
void run_pipeline(std::vector<Action> actions, int64_t n_chunks, const StageWork& work, Group& line);

}  // namespace folio::train::parallel
