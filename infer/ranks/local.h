// Tensor parallelism on the CPU within one process. Each shard has its own threads and memory, and computes some output
// rows of every matrix and some attention heads. With several memory nodes (NUMA), each shard stays on one node. Output
// is byte-identical for any number of shards.
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

/// A thread for each shard. Threads sleep between runs. std::barrier is not used: in libstdc++, waiting threads yield
/// instead of sleeping, which costs milliseconds per run while other programs are busy.
class ShardThreads {
 public:
  /// Starts `n` threads, thread i on memory node nodes[i % nodes.size()]. Throws core::Error if one cannot be started.
  ShardThreads(size_t n, std::span<const core::MemoryNode> nodes);
  ~ShardThreads();
  ShardThreads(const ShardThreads&) = delete;
  ShardThreads& operator=(const ShardThreads&) = delete;

  /// Calls work(i) on every thread i and returns when all calls have finished. If calls throw, the first thread to fail
  /// calls `on_failure` immediately, and run() rethrows its exception after the last call.
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

/// A group of threads that exchange data by reading each other's memory.
class LocalGroup {
 public:
  explicit LocalGroup(size_t n_members);
  /// Returns the transport of a member. The group must outlive it. Timeouts are ignored.
  [[nodiscard]] std::unique_ptr<Transport> member(size_t index);

  /// After a member has failed, makes all_gather() throw in all members. reset() undoes this, and may be called only
  /// while no member is in all_gather().
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

  std::array<std::vector<Given>, 2> given_;  ///< [round % 2][member]: the bytes that the member sends
  std::atomic<uint32_t> n_here_{0};
  std::atomic<uint32_t> n_rounds_{0};
  std::atomic<bool> broken_{false};
};

class ShardedCpu final : public Machine {
 public:
  /// Creates `n_shards` CPU backends, backend i on memory node nodes[i % nodes.size()]. They have options.n_threads
  /// threads in total (0: the default number), but at least one each.
  ShardedCpu(size_t n_shards, const CpuOptions& options, std::span<const core::MemoryNode> nodes);

  [[nodiscard]] std::string describe() const override;
  /// Loads one shard of the model on each CPU backend. Throws core::Error if there are more shards than tiles of 16
  /// rows in a matrix of config.dim rows.
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] size_t n_threads() const;
  [[nodiscard]] const Cpu& cpu(size_t shard) const { return *cpus_[shard]; }
  /// Returns the bytes of activations that the shards have sent in all steps so far, counted once per receiver.
  [[nodiscard]] uint64_t exchanged_bytes() const;

 private:
  ShardThreads threads_;
  LocalGroup group_;
  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

/// Returns the default number of shards: one per memory node, but at most n_threads, and at most one per tile of
/// kShardRows rows in a matrix of config.dim rows.
[[nodiscard]] size_t default_shards(size_t n_nodes, size_t n_threads, const core::ModelConfig& config);

}  // namespace folio::infer
