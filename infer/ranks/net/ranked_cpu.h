// CPUs of several processes as one machine. Ranks lie in a grid: of each pipeline stage, which has a range of layers,
// some ranks that share out its matrices by output rows, as the shards of a process do. Rank 0 takes requests and has
// the bookkeeping; the others do the same steps, which it tells them. A text has the bytes of a single process.
//
//   rank      0 | 1   of 2 x 2:   0 and 1 give each other parts of the activations in each layer of stage 0;
//   stage 0   --+--               0 hands the residual to 2, and 1 to 3;
//   rank      2 | 3               2 sends the logits to 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/cpu/cpu.h"
#include "infer/forward/machine.h"
#include "infer/ranks/net/logits_inbox.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/transport.h"
#include "infer/ranks/net/world.h"

namespace folio::infer {

class RankedCpu final : public Machine {
 public:
  /// Connects with the other ranks, which are n_stages times as many as those of a stage. Throws core::UsageError if
  /// they aren't, and core::Error if one does not come.
  RankedCpu(const World& world, size_t n_stages, const CpuOptions& options);
  /// Of rank 0: the others end, too.
  ~RankedCpu() override;

  [[nodiscard]] std::string describe() const override;
  /// All ranks load the same models in the same order; each takes its part of the layers and matrices. Throws
  /// core::Error if one has another model, or another build, or if the model's layers or its width are too few. The
  /// stage has to be there as long as steps are done, on all ranks.
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] bool leads() const { return world_.rank == 0; }
  /// Of another rank than 0: does what rank 0 does, until that ends. Throws MachineLost if a rank is gone.
  void follow();
  /// Why no further step is possible, from any thread; nothing as long as all ranks are there.
  [[nodiscard]] std::optional<std::string> loss() const;

  [[nodiscard]] const Cpu& cpu() const { return cpu_; }
  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] size_t n_stages() const { return n_stages_; }
  /// Numbers that this rank has given the others of its stage, times those who got them, in bytes.
  [[nodiscard]] uint64_t given_bytes() const { return exchange_ ? exchange_->given_bytes() : 0; }

 private:
  friend class RankedStage;
  void tell(const Order& order);
  /// The rank that orders come from, in a pipeline.
  [[nodiscard]] size_t before() const { return world_.rank < n_shards_ ? 0 : world_.rank - n_shards_; }
  void hand_on(std::span<const std::byte> order);
  void take_leave();

  World world_;
  size_t n_stages_;
  size_t n_shards_;  ///< ranks of a stage
  Cpu cpu_;
  Peers peers_;
  std::unique_ptr<Transport> all_;          ///< of all ranks
  std::vector<size_t> next_;                ///< ranks that this one hands orders on to, in a pipeline
  LogitsInbox logits_;                      ///< of rank 0 of a pipeline
  std::unique_ptr<Exchange> exchange_;      ///< of the ranks of this stage; none if that has one alone
  std::vector<class RankedStage*> stages_;  ///< of the models that were loaded, in their order
};

}  // namespace folio::infer
