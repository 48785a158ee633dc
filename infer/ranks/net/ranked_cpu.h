// Runs a model on the CPUs of several processes. Each pipeline stage has a range of layers and several ranks, which
// split its matrices by output rows. Rank 0 sends each step to the other ranks. Output is byte-identical to that of one
// process.
//   rank      0 | 1   (2 stages)  0 and 1 exchange parts of the activations in each layer of stage 0;
//   stage 0   --+--               0 sends the residual to 2, and 1 to 3;
//   rank      2 | 3               2 sends the logits to 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/cpu/cpu.h"
#include "infer/forward/machine.h"
#include "infer/ranks/net/logits_inbox.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/rank_config.h"
#include "infer/ranks/net/transport.h"

namespace folio::infer {

class RankedCpu final : public Machine {
 public:
  /// Connects to the other ranks. Throws core::UsageError if the number of ranks is not a multiple of n_stages, and
  /// core::Error if a rank doesn't connect.
  RankedCpu(const RankConfig& world, size_t n_stages, const CpuOptions& options);
  /// Disconnects. On rank 0, also makes follow() return on the other ranks.
  ~RankedCpu() override;

  [[nodiscard]] std::string describe() const override;
  /// Loads this rank's part of the layers and matrices. All ranks must load the same models in the same order, and
  /// must not destroy the stages while steps run. Throws core::Error if the ranks' models or builds differ, or if the
  /// model has too few layers or rows to be split.
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] bool leads() const { return world_.rank == 0; }
  /// Runs `body`. If `body` throws, sends its error message to the other ranks, which then fail, lets all functions
  /// throw it from now on, and rethrows: other ranks may wait in the middle of a step, or have loaded an adapter that
  /// this rank lacks.
  void run(const std::function<void()>& body);
  /// Executes rank 0's orders until rank 0 ends. All other ranks must call it. Throws MachineLost if a rank is lost.
  void follow();
  /// Returns an error message if no further step is possible; nullopt while all ranks are connected. Thread-safe.
  [[nodiscard]] std::optional<std::string> loss() const;

  [[nodiscard]] const Cpu& cpu() const { return cpu_; }
  [[nodiscard]] const RankConfig& world() const { return world_; }
  [[nodiscard]] size_t n_stages() const { return n_stages_; }
  /// Returns the number of bytes of activations that this rank has sent within its stage, counted once per receiver.
  [[nodiscard]] uint64_t sent_bytes() const { return exchange_ ? exchange_->sent_bytes() : 0; }

 private:
  friend class RankedStage;
  void tell(const Order& order);
  /// Returns the rank from which this one receives orders and residuals in a pipeline.
  [[nodiscard]] size_t before() const { return world_.rank < n_shards_ ? 0 : world_.rank - n_shards_; }
  void forward_order(std::span<const std::byte> order);
  [[nodiscard]] std::unique_ptr<Stage> load_part(const core::StoredModel& model, const Shard& shard,
                                                 CacheType cache_type);
  void shutdown();

  RankConfig world_;
  size_t n_stages_;
  size_t n_shards_;  ///< ranks per stage
  Cpu cpu_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<Transport> all_;          ///< connects all ranks for all-gathers
  std::vector<size_t> next_;                ///< in a pipeline: the ranks that this one forwards orders to
  LogitsInbox logits_;                      ///< logits from the last stage; used only by rank 0 of a pipeline
  std::unique_ptr<Exchange> exchange_;      ///< exchanges data within this stage; null if it has one rank
  std::vector<class RankedStage*> stages_;  ///< one per loaded model, in the order of loading
};

}  // namespace folio::infer
