// Data parallel ranks of one host: their gradients are in memory that all see, a room for each rank, one gradient
// behind the other. With sockets the bytes of a sum are copied four times, by both ranks' processors; here they are
// read once.
//
//   rank 0's room   [ gradients ............ | ...................... ]
//                        ▼ + ▲ rank 0 adds up      ▼ + ▲ rank 1 adds up, and each writes the sum into all rooms
//   rank 1's room   [ gradients ............ | ...................... ]
//
// The ranks meet (group.h) when all have written their gradients, and again when all have written their sums.
// Parameters that owners have updated (zero.h) go the same way.
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/shared_rooms.h"

namespace folio::train::parallel {

class SharedGradients {
 public:
  /// A collective. Null where the ranks share no memory. `owners`, an index in the group for each parameter: who
  /// updates it; none, if all do.
  static std::unique_ptr<SharedGradients> open(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners,
                                               Group& group);

  /// After a step's last backward pass: each parameter's gradient is the sum over the ranks, added in their order, and
  /// lies in this rank's room. A parameter without a gradient counts as zeros.
  void sum();
  /// Each parameter becomes what it is at its owner.
  void share();

  /// Bytes that this rank has read of others' rooms, and has written into them.
  [[nodiscard]] int64_t bytes_sent() const { return bytes_sent_; }

 private:
  SharedGradients(std::vector<torch::Tensor> parameters, std::vector<int64_t> owners, Group& group);
  /// Of parameter i's shape, in the room of a rank.
  [[nodiscard]] torch::Tensor at(int64_t rank, int64_t begin, size_t i) const;

  std::vector<torch::Tensor> parameters_;
  std::vector<int64_t> owners_;
  Group& group_;
  std::unique_ptr<SharedRooms> rooms_;
  std::vector<int64_t> gradients_;  ///< where each one's gradient begins in a room
  std::vector<int64_t> weights_;    ///< behind all gradients: where its new weights do, in its owner's room
  int64_t n_gradients_ = 0;         ///< numbers of all gradients in a room
  int64_t bytes_sent_ = 0;
};

}  // namespace folio::train::parallel
