// All-reduce of gradients in shared memory, for data parallel ranks on one host. Each rank has a buffer with all its
// gradients. Over sockets, the bytes of a sum would be copied four times; in shared memory, each gradient is read once.
//
//   rank 0's buffer [ gradients ............ | ...................... ]
//                        ▼ + ▲ rank 0 adds         ▼ + ▲ rank 1 adds; each writes its sums to all buffers
//   rank 1's buffer [ gradients ............ | ...................... ]
//
// After writing gradients and after writing sums, ranks wait at a Gloo barrier, which detects lost ranks. Parameters
// updated by their owners (zero.h) are shared in the same way.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "core/shared_memory.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

class SharedGradients {
 public:
  /// Allocates the buffers. Collective. Returns null for one rank, for parameters on a GPU, for several hosts, if
  /// /dev/shm is too small, or if $FOLIO_RANK_TRANSPORT is "gloo". Throws core::UsageError for an unknown transport.
  /// `owners` has the group index of the rank that updates each parameter; empty if every rank updates all.
  static std::unique_ptr<SharedGradients> open(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners,
                                               Group& group);

  /// Replaces each gradient with its sum over ranks, added in rank order and stored in this rank's buffer. A missing
  /// gradient counts as zeros. Collective; must be called after a step's last backward pass.
  void sum();
  /// Copies each parameter from its owner to all ranks. Collective; must be called after the owners' updates.
  void share();

 private:
  SharedGradients(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners, Group& group);
  /// Returns a view of n elements of a rank's buffer, starting at `begin`.
  [[nodiscard]] torch::Tensor view(int64_t rank, int64_t begin, int64_t n) const;
  /// Returns a view with parameter i's shape, starting at `begin` of a rank's buffer.
  [[nodiscard]] torch::Tensor at(int64_t rank, int64_t begin, size_t i) const;

  std::vector<torch::Tensor> parameters_;
  std::vector<int64_t> owners_;
  Group& group_;
  core::SharedMemory memory_;
  std::vector<int64_t> gradients_;  ///< offset of each parameter's gradient in a buffer, in elements
  std::vector<int64_t> weights_;    ///< offset of each parameter's new weights in its owner's buffer, in elements
  int64_t n_gradients_ = 0;         ///< total number of gradient elements in a buffer
  int64_t buffer_size_ = 0;         ///< in elements
};

}  // namespace folio::train::parallel
