// Several CPUs in one process as one machine: the ranks of a model are shards, each with its rows of the matrices and
// its heads, threads and memory of its own, on a machine with several memory nodes those of one node. Output has the
// same bytes on any number of them.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/memory_nodes.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/machine.h"

namespace folio::infer {

/// A thread for each shard. They sleep between runs: a std::barrier of libstdc++ yields instead, which costs a run
/// milliseconds while other programs are busy.
class ShardThreads {
 public:
  /// Thread i works near nodes[i % nodes.size()]. Throws core::Error if one cannot be started.
  ShardThreads(size_t n, std::span<const core::MemoryNode> nodes);
  ~ShardThreads();
  ShardThreads(const ShardThreads&) = delete;
  ShardThreads& operator=(const ShardThreads&) = delete;

  /// Calls work(i) on thread i, for all, and returns when all have ended. If several throw, throws what the first one
  /// did that `on_failure` was called for; that is called at once, by the thread that failed.
  void run(const std::function<void(size_t)>& work, const std::function<void()>& on_failure = {});

 private:
  void serve(size_t index, const core::MemoryNode& node);
  void stop();

  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  const std::function<void(size_t)>* work_ = nullptr;
  const std::function<void()>* on_failure_ = nullptr;
  uint64_t n_runs_ = 0;
  size_t n_left_ = 0;
  bool stops_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

/// A group of threads, which read each other's bytes.
class LocalGroup {
 public:
  explicit LocalGroup(size_t n_members);
  /// Returns the transport of a member, which must not outlive the group. It ignores timeouts.
  [[nodiscard]] std::unique_ptr<Transport> member(size_t index);

  /// A member failed: calls of all_gather() throw until reset(), when no member runs.
  void break_off();
  void reset();

 private:
  class Member;
  struct Given {
    std::span<const std::byte> bytes{};
    size_t n_to_all = 0;
  };
  void wait_for_all(uint32_t round);
  void check() const;

  std::array<std::vector<Given>, 2> given_;  ///< by members, in even and in odd rounds
  std::atomic<uint32_t> n_here_{0};
  std::atomic<uint32_t> n_rounds_{0};
  std::atomic<bool> broken_{false};
};

class ShardedCpu final : public Machine {
 public:
  /// `options.n_threads` in all, at least one for each shard. `nodes` are the machine's, and at least one.
  ShardedCpu(size_t n_shards, const CpuOptions& options, std::span<const core::MemoryNode> nodes);

  [[nodiscard]] std::string describe() const override;
  /// Throws core::Error if the model's width has fewer tiles than there are shards.
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] size_t n_threads() const;
  [[nodiscard]] const Cpu& cpu(size_t shard) const { return *cpus_[shard]; }
  /// Returns what the shards have given each other in all steps: see infer::exchanged_bytes().
  [[nodiscard]] uint64_t exchanged_bytes() const;

 private:
  ShardThreads threads_;
  LocalGroup group_;
  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

/// Returns the default number of shards: one for each memory node, as long as each has a thread and, of the model's
/// width, a tile.
[[nodiscard]] size_t default_shards(size_t n_nodes, size_t n_threads, const core::ModelConfig& config);

}  // namespace folio::infer
