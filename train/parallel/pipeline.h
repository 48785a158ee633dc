// Pipeline parallelism: each rank has some layers, and microbatches pass between ranks in the order of a Schedule.
//
//   rank 0: layers 0, 1          rank 1: layers 2, 3          rank 2: layers 4, 5
//   embeddings                                                norm, head, loss
//      x = f(tokens) ── x [B, T, D] ──▶ x = f(x) ── x ──────────▶ loss = f(x)
//      backward(dx) ◀── dx ─────────── backward(dx) ◀── dx ────── backward
//
// With v chunks of layers per rank, chunk c of the last rank sends to chunk c + 1 of the first. A rank sends B · T · D
// elements (sequences, positions, model width) per microbatch, chunk and direction. It is idle while the pipeline fills
// and drains.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "train/parallel/group.h"
#include "train/parallel/schedule.h"

namespace folio::train::parallel {

struct StageWork {
  std::vector<int64_t> shape;  ///< shape of the activations sent between stages, per microbatch
  torch::ScalarType type;
  /// Runs a microbatch through a chunk's layers. x is the previous stage's output, undefined in the first stage.
  /// Returns the input of the next stage, or the loss in the last stage.
  std::function<torch::Tensor(int64_t chunk, int64_t microbatch, const torch::Tensor& x)> forward;
};

/// Runs this rank's actions. `line` is the group of the pipeline's ranks, at least two; chunk c of its rank r is stage
/// c · line.size() + r. Skips backward passes if autograd is off. Accumulates gradients of the parameters that
/// work.forward uses. Throws RankLost if a rank of `line` is lost.
void run_pipeline(std::vector<Action> actions, int64_t n_chunks, const StageWork& work, Group& line);

}  // namespace folio::train::parallel
