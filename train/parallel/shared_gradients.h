// Gradients of data parallel ranks of one host in shared memory, a room for each rank, one gradient after the other.
// Sockets copy the bytes of a sum four times; here they are read once.
//
//   rank 0's room   [ gradients ............ | ...................... ]
//                        ▼ + ▲ rank 0 adds up      ▼ + ▲ rank 1 adds up, and each writes the sum into all rooms
//   rank 1's room   [ gradients ............ | ...................... ]
//
// The ranks meet through Gloo, which notices lost ranks, after writing their gradients and after writing their sums.
// Parameters that owners have updated (zero.h) are shared the same way.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "core/shared_memory.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

class SharedGradients {
 public:
  /// A collective. Null where the ranks are on several hosts, where /dev/shm is too small, and where
  /// $FOLIO_RANK_TRANSPORT is "gloo"; throws core::UsageError if that is neither "gloo" nor "shared". `owners`: the
  /// index in the group of the rank that updates each parameter; empty, if all do.
  static std::unique_ptr<SharedGradients> open(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners,
                                               Group& group);

  /// After a step's last backward pass: each parameter's gradient is the sum over the ranks, added in their order, and
  /// is in this rank's room. A parameter without a gradient counts as zeros.
  void sum();
  /// Each parameter becomes what it is at its owner.
  void share();

 private:
  SharedGradients(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners, Group& group);
  /// n elements of a rank's room.
  [[nodiscard]] torch::Tensor room(int64_t rank, int64_t begin, int64_t n) const;
  /// With parameter i's shape.
  [[nodiscard]] torch::Tensor at(int64_t rank, int64_t begin, size_t i) const;

  std::vector<torch::Tensor> parameters_;
  std::vector<int64_t> owners_;
  Group& group_;
  core::SharedMemory memory_;
  std::vector<int64_t> gradients_;  ///< where each one's gradient begins in a room
  std::vector<int64_t> weights_;    ///< after all gradients: where its new weights do, in its owner's room
  int64_t n_gradients_ = 0;         ///< elements of all gradients in a room
  int64_t room_ = 0;                ///< elements of a room
};

}  // namespace folio::train::parallel
