// Several CPUs in one process as one machine: each shard has its rows of the matrices and its heads, threads and memory
// of its own, on a machine with several memory nodes those of one node. A text has the same bytes on any number of
// them.
#pragma once

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

/// A thread for each shard, which does what all are told.
class ShardThreads {
 public:
  /// Thread i works near nodes[i % nodes.size()]. Throws core::Error if one cannot be started.
  ShardThreads(size_t n, std::span<const core::MemoryNode> nodes);
  ~ShardThreads();
  ShardThreads(const ShardThreads&) = delete;
  ShardThreads& operator=(const ShardThreads&) = delete;

  [[nodiscard]] size_t size() const { return threads_.size(); }
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

class ShardedCpu final : public Machine {
 public:
  /// `options.n_threads` in all, at least one for each shard. `nodes` are the machine's, and at least one.
  ShardedCpu(size_t n_shards, const CpuOptions& options, std::span<const core::MemoryNode> nodes);
  ~ShardedCpu() override;

  [[nodiscard]] std::string describe() const override;
  /// Throws core::Error if the model's width has fewer tiles than there are shards.
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] size_t n_shards() const { return cpus_.size(); }
  [[nodiscard]] size_t n_threads() const;
  [[nodiscard]] const Cpu& cpu(size_t shard) const { return *cpus_[shard]; }
  /// What shards have given each other in all steps of all stages.
  [[nodiscard]] uint64_t exchanged_bytes() const;

 private:
  friend class ShardedStage;
  ShardThreads threads_;
  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::vector<std::weak_ptr<class LocalExchange>> exchanges_;
};

/// How many shards are taken where nobody says how many: one for each memory node, as long as each has a thread and, of
/// the model's width, a tile.
[[nodiscard]] size_t default_shards(size_t n_nodes, size_t n_threads, const core::ModelConfig& config);

/// What the shards of a model give each other in a step of `rows` rows, of which `logit_rows` need logits: the
/// embedding's rows, of each layer queries, keys, values, heads, the residual, and of each feed-forward network its
/// middle and the residual, to all others; of experts also the routes; and the logits to the first. From the last
/// layer's heads on these are of the logit_rows. So much is given where no route is rounded to 0.
[[nodiscard]] uint64_t exchanged_bytes(const core::ModelConfig& config, size_t n_shards, size_t rows,
                                       size_t logit_rows);

}  // namespace folio::infer
