// Ranks that send each other tensors, by c10d: its Gloo backend for tensors on CPUs, and NCCL, where LibTorch has it,
// for those on GPUs.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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

/// A rank that others wait for is gone, or did not come in time.
class RankLost : public core::Error {
 public:
  using core::Error::Error;
};

/// Whether ranks of this build can send each other tensors on GPUs.
[[nodiscard]] bool has_nccl();

/// An operation that was begun. It keeps its tensors, which must not be touched before wait() returns.
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  /// Throws RankLost that names the operation and the group.
  void wait() {
    if (const auto wait = std::exchange(wait_, {})) wait();
  }

 private:
  std::function<void()> wait_;
};

/// All ranks of a group make the same calls in the same order; a group of one sends nothing. Each call throws RankLost
/// that names the group if a rank of it is gone or does not come within the timeout.
class Group {
 public:
  /// `ranks` of the world, ascending, of which `rank` is this one. A collective with the same name on all of them.
  Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
        std::chrono::milliseconds timeout);
  ~Group();

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  /// This rank's place in the group.
  [[nodiscard]] int64_t index() const { return index_; }
  /// The neighbours on a ring.
  [[nodiscard]] int64_t next() const { return (index_ + 1) % size(); }
  [[nodiscard]] int64_t previous() const { return (index_ + size() - 1) % size(); }

  /// t becomes the sum of all ranks' t, element by element.
  void sum(torch::Tensor t);
  /// The sum and the largest of all ranks' values.
  [[nodiscard]] double sum(double value);
  [[nodiscard]] double largest(double value);
  /// t of the rank with this index becomes the sum; that of the others is undefined.
  void sum_at(torch::Tensor t, int64_t index);
  /// t becomes what it is at the rank with this index.
  void broadcast(torch::Tensor t, int64_t index);
  /// All ranks' t, of one shape, concatenated along dim.
  [[nodiscard]] torch::Tensor gather(const torch::Tensor& t, int64_t dim);
  /// This rank's part of the sum of all ranks' t, in their order, cut into size() equal parts along dim.
  [[nodiscard]] torch::Tensor sum_scatter(const torch::Tensor& t, int64_t dim);
  /// Sends rows of t [sum of sent, …], the first sent[0] to rank 0 and so on; returns received[0] from rank 0 and so
  /// on.
  [[nodiscard]] torch::Tensor exchange(const torch::Tensor& t, const std::vector<int64_t>& sent,
                                       const std::vector<int64_t>& received);
  /// t, contiguous, to the rank with this index, or into t from it. Both sides give the same tag.
  [[nodiscard]] Pending send(const torch::Tensor& t, int64_t index, int tag = 0);
  [[nodiscard]] Pending receive(torch::Tensor t, int64_t index, int tag = 0);
  /// Returns when all have come.
  void meet();

  /// Bytes that this rank has sent, from the tensors' sizes and Gloo's algorithms (a ring for sums and gathers, a tree
  /// for broadcasts). What was sent by other means is added: in all, or for the sum of tensors of this size.
  [[nodiscard]] int64_t bytes_sent() const { return bytes_sent_; }
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }
  void count_sum(int64_t bytes) { count_sent(bytes_of_sum(bytes)); }
  /// For c10d's own classes, its Reducer for example. Null for a group of one.
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }

 private:
  /// Connects each two of `size` ranks over TCP, by the interface in $GLOO_SOCKET_IFNAME or the one with the host's own
  /// address; NCCL connects at the first call with a tensor on a GPU.
  static c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                        int64_t size, std::chrono::milliseconds timeout);

  /// A ring: each part of size() goes around once to be summed, and once to be known.
  [[nodiscard]] int64_t bytes_of_sum(int64_t bytes) const { return 2 * bytes * (size() - 1) / size(); }

  using Tensors = std::vector<torch::Tensor>;
  using Call = std::function<c10::intrusive_ptr<c10d::Work>(Tensors&)>;  // of c10d, which begins to work on tensors
  Pending begin(const char* what, int64_t bytes, Tensors tensors, const Call& call);
  void in_place(const char* what, int64_t bytes, torch::Tensor t, const Call& call);

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t bytes_sent_ = 0;
};

}  // namespace folio::train::parallel
