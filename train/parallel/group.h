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

/// An operation that was begun. Its tensors must not be touched before wait() returns.
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

/// All ranks of a group make the same calls in the same order. A group of one rank sends nothing. Each call throws
/// RankLost that names the group's ranks if one of them is gone or does not come within the timeout.
class Group {
 public:
  /// `ranks` of the world, ascending, of which `rank` is this one. A collective with the same name on all of them.
  Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
        std::chrono::milliseconds timeout);
  ~Group();

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  /// This rank's place in the group.
  [[nodiscard]] int64_t index() const { return index_; }

  /// t becomes the sum of all ranks' t, or the largest of them, element by element.
  void sum(torch::Tensor t);
  void largest(torch::Tensor t);
  /// t of the rank with this index becomes the sum; that of the others is undefined.
  void sum_at(torch::Tensor t, int64_t index);
  /// t becomes what it is at the rank with this index.
  void broadcast(torch::Tensor t, int64_t index);
  /// All ranks' t, of one shape, concatenated along dim.
  [[nodiscard]] torch::Tensor gather(const torch::Tensor& t, int64_t dim);
  /// This rank's part of the sum of all ranks' t, cut into size() equal parts along dim. Summed in the order of the
  /// ranks.
  [[nodiscard]] torch::Tensor sum_scatter(const torch::Tensor& t, int64_t dim);
  /// Sends rows of t [sum of sent, …]: the first sent[0] to rank 0, and so on. Returns the rows that come, received[i]
  /// from rank i, in the order of the ranks.
  [[nodiscard]] torch::Tensor exchange(const torch::Tensor& t, const std::vector<int64_t>& sent,
                                       const std::vector<int64_t>& received);
  /// t to, or into t from, the rank with this index. Both sides give the same tag.
  [[nodiscard]] Pending send(const torch::Tensor& t, int64_t index, int tag = 0);
  [[nodiscard]] Pending receive(torch::Tensor t, int64_t index, int tag = 0);
  /// Returns when all have come.
  void meet();

  /// Bytes that this rank has sent to others of the group by these calls, counted from the tensors' sizes and Gloo's
  /// algorithms (a ring for sums and gathers, a tree for broadcasts).
  [[nodiscard]] int64_t bytes_sent() const { return bytes_sent_; }
  /// For c10d's own classes, its Reducer for example. Null for a group of one.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

 private:
  /// Connections between each two of `size` ranks, over TCP. Gloo takes the network interface whose name is in
  /// $GLOO_SOCKET_IFNAME, or the one with the host's own address; NCCL connects at the first call with a tensor on a
  /// GPU.
  static c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                        int64_t size, std::chrono::milliseconds timeout);

  using Tensors = std::vector<torch::Tensor>;
  using Call = std::function<c10::intrusive_ptr<c10d::Work>(Tensors&)>;  // of c10d, which begins to work on tensors
  Pending begin(const char* what, int64_t bytes, Tensors tensors, const Call& call);
  void in_place(const char* what, int64_t bytes, torch::Tensor t, const Call& call, bool has_result = true);

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t bytes_sent_ = 0;
};

}  // namespace folio::train::parallel
