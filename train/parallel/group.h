// Ranks that send each other tensors. c10d does the work: its Gloo backend for tensors on CPUs, and NCCL, where
// LibTorch has it, for those on GPUs.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"

namespace c10d {
class ProcessGroup;
class Store;
class Work;
}  // namespace c10d

namespace folio::train::parallel {

/// A rank that others wait for is gone, or didn't come in time.
class RankLost : public core::Error {
 public:
  using core::Error::Error;
};

/// Something that was begun. Its tensors must not be touched before wait() returns.
class Pending {
 public:
  Pending() = default;
  Pending(c10::intrusive_ptr<c10d::Work> work, std::string what);
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Throws RankLost that says what, and with whom.
  void wait();

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
};

/// All ranks of a group make the same calls in the same order. A group of one rank does nothing. Each call throws
/// RankLost that names the group, and so the ranks in it, if one of them is gone or doesn't come within the timeout.
class Group {
 public:
  /// `ranks` of the world, ascending, of which `rank` is this one. All of them come here with the same name.
  Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
        std::chrono::milliseconds timeout);
  ~Group();

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  /// This rank's place in the group.
  [[nodiscard]] int64_t index() const { return index_; }
  [[nodiscard]] const std::vector<int64_t>& ranks() const { return ranks_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// t becomes the sum of all ranks' t; the largest of them, element by element.
  void sum(torch::Tensor t);
  void largest(torch::Tensor t);
  [[nodiscard]] Pending begin_sum(torch::Tensor t);
  /// t of the rank with this index becomes the sum; that of the others is undefined.
  void sum_at(torch::Tensor t, int64_t index);
  /// t becomes what it is at the rank with this index.
  void broadcast(torch::Tensor t, int64_t index);
  /// All ranks' t, of one shape, behind each other along dim.
  [[nodiscard]] torch::Tensor gather(const torch::Tensor& t, int64_t dim);
  /// Of the sum of all ranks' t, cut into size() equal parts along dim, this rank's. Summed in the order of the ranks.
  [[nodiscard]] torch::Tensor sum_scatter(const torch::Tensor& t, int64_t dim);
  /// Rows of t [sum of sent, …]: the first sent[0] go to rank 0, and so on. What comes, in the order of the ranks, of
  /// which received[i] from rank i.
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
  Pending begin(const char* what, int64_t bytes, const std::function<c10::intrusive_ptr<c10d::Work>()>& call);

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t bytes_sent_ = 0;
};

}  // namespace folio::train::parallel
