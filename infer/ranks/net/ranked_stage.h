// The runner's view of a model that is split across ranks.
#pragma once

#include <memory>
#include <vector>

#include "infer/forward/pass_through.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/ranked_cpu.h"

namespace folio::infer {

// On rank 0, sends each step to the other ranks. Without a pipeline, rank 0 then runs operations as the forward pass
// issues them; with one, it runs the whole step at once. On other ranks, the runner has no requests and issues nothing.
class RankedStage final : public PassThroughStage, public StageMemory, public PassThroughResults {
 public:
  /// Creates stage `number` of the machine. `cpu_stage` is this rank's part, and has the last layers if `is_last`.
  /// `report` covers all ranks. As many steps may be in flight as there are pipeline stages.
  RankedStage(RankedCpu& machine, std::unique_ptr<Stage> cpu_stage, bool is_last, uint32_t number,
              const RankReport& report);

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  [[nodiscard]] StageMemory& memory() override { return *this; }
  [[nodiscard]] StageResults& results() override { return *this; }
  /// Throws core::Error for an observed step in a pipeline.
  bool begin(const Step& step) override;

  [[nodiscard]] CacheFit cache_fit() const override { return fit_; }
  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override;
  void unload_adapter(int32_t number) override;

  Ticket fetch_logits() override { return in_pipeline() ? logits_ : PassThroughResults::fetch_logits(); }
  std::span<float> wait(Ticket ticket) override;

  /// Executes an order of rank 0; for the other ranks only.
  void do_order(Order& order);

 private:
  [[nodiscard]] bool in_pipeline() const { return machine_.n_stages() > 1; }
  [[nodiscard]] size_t most_on_their_way(const Step& step) const;
  void run(const Step& step);
  template <typename Work>
  void or_mark_failed(Work&& work);

  RankedCpu& machine_;
  bool is_last_;
  uint32_t number_;
  StageInfo info_;
  CacheFit fit_;
  Ticket logits_{};  ///< ticket of the last step
  std::vector<float> residual_;
};

/// Splits a step's rows, in order, into pieces of nearly equal size (micro-batches), so that a pipeline stage can
/// compute one piece while the next stage computes the one before. A short step stays whole, since each piece reads all
/// weights.
[[nodiscard]] std::vector<Step> pieces_of(const Step& step, size_t n_stages);

}  // namespace folio::infer
