// A group of ranks with collectives and point-to-point transfers of tensors, on top of c10d: its Gloo backend for CPU
// tensors, and NCCL, if LibTorch has it, for GPU tensors.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace c10d {
class ProcessGroup;
class Store;
class Work;
}  // namespace c10d

namespace folio::train::parallel {

/// Thrown if another rank has ended, or does not respond within the timeout.
class RankLost : public core::Error {
 public:
  using core::Error::Error;
};

/// Returns true if this build can transfer GPU tensors between ranks (NCCL).
[[nodiscard]] bool has_nccl();

/// An asynchronous operation. It keeps its tensors alive; do not access them before wait() returns.
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  /// Waits for the operation. Throws RankLost, with the names of the operation and the group, if a rank is lost.
  void wait() {
    if (const auto wait = std::exchange(wait_, {})) wait();
  }

 private:
  std::function<void()> wait_;
};

/// Ranks that communicate. All must make the same calls in the same order; a group of one sends nothing. Every call
/// throws RankLost, with the group's name, if a rank has ended or does not join within the timeout.
class Group {
 public:
  /// Connects the ranks in `ranks`, which must be in ascending order and include `rank`, this process's rank.
  /// Collective: all ranks must pass the same name.
  Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
        std::chrono::milliseconds timeout);
  ~Group();

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  /// Returns this rank's index in the group, in [0, size()).
  [[nodiscard]] int64_t index() const { return index_; }
  /// Returns the next rank's group index in a ring, (index() + 1) % size(); previous() returns the previous rank's.
  [[nodiscard]] int64_t next() const { return (index_ + 1) % size(); }
  [[nodiscard]] int64_t previous() const { return (index_ + size() - 1) % size(); }

  /// All-reduce: overwrites t on every rank with the elementwise sum of all ranks' t.
  void sum(torch::Tensor t);
  /// Returns the sum of all ranks' values; largest() returns their maximum.
  [[nodiscard]] double sum(double value);
  [[nodiscard]] double largest(double value);
  /// Reduce: on the rank with this group index, overwrites t with the sum over all ranks. On other ranks, the values of
  /// t are unspecified afterwards.
  void sum_at(torch::Tensor t, int64_t index);
  /// Broadcast: overwrites t on all ranks with the t of the rank with this group index.
  void broadcast(torch::Tensor t, int64_t index);
  /// All-gather: returns the t of all ranks, in rank order, concatenated along dim. All must have the same shape.
  [[nodiscard]] torch::Tensor gather(const torch::Tensor& t, int64_t dim);
  /// Reduce-scatter: sums t over all ranks, cuts the sum into size() equal parts along dim, and returns part index().
  [[nodiscard]] torch::Tensor sum_scatter(const torch::Tensor& t, int64_t dim);
  /// All-to-all: sends the first sent[0] rows of t to rank 0, the next sent[1] to rank 1 and so on. Returns the
  /// received rows in rank order: received[i] rows from rank i.
  [[nodiscard]] torch::Tensor exchange(const torch::Tensor& t, const std::vector<int64_t>& sent,
                                       const std::vector<int64_t>& received);
  /// Starts sending t, which must be contiguous, to the rank with this group index. receive() starts receiving a tensor
  /// from that rank into t. The tags of both calls must be equal.
  [[nodiscard]] Pending send(const torch::Tensor& t, int64_t index, int tag = 0);
  [[nodiscard]] Pending receive(torch::Tensor t, int64_t index, int tag = 0);
  /// Barrier: returns when all ranks have called it.
  void meet();

  /// Returns the bytes that this rank has sent, computed from tensor sizes and Gloo's algorithms (a ring for sums and
  /// gathers, a tree for broadcasts). For transfers made without this class, count_sent() adds the bytes sent, and
  /// count_sum() those sent in an all-reduce of a tensor of `bytes` bytes.
  [[nodiscard]] int64_t bytes_sent() const { return bytes_sent_; }
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }
  void count_sum(int64_t bytes) { count_sent(bytes_of_sum(bytes)); }
  /// Returns the process group for classes of c10d, such as its Reducer; null for a group of one.
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }

 private:
  /// Connects all pairs of ranks over TCP, through the network interface in $GLOO_SOCKET_IFNAME or the one with the
  /// host's address. NCCL connects at the first call with a GPU tensor.
  static c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                        int64_t size, std::chrono::milliseconds timeout);

  /// Returns the bytes that a rank sends in a ring all-reduce of a tensor of `bytes` bytes.
  [[nodiscard]] int64_t bytes_of_sum(int64_t bytes) const { return 2 * bytes * (size() - 1) / size(); }

  using Tensors = std::vector<torch::Tensor>;
  using Call = std::function<c10::intrusive_ptr<c10d::Work>(Tensors&)>;  // starts an operation of c10d
  Pending begin(const char* what, int64_t bytes, Tensors tensors, const Call& call);
  void in_place(const char* what, int64_t bytes, torch::Tensor t, const Call& call);

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t bytes_sent_ = 0;
};

}  // namespace folio::train::parallel
