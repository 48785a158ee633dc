// A stage that runs a model on all ranks: the runner issues operations to it as if one machine had the whole model.
#pragma once

#include <memory>
#include <vector>

#include "infer/forward/pass_through.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/ranked_cpu.h"

namespace folio::infer {

// A loaded model on one rank. On rank 0, the stage sends each step to the other ranks. Without a pipeline, it then runs
// operations as the forward pass issues them; in a pipeline, begin() runs the whole step. On the other ranks,
// do_order() runs the steps that rank 0 sends.
class RankedStage final : public PassThroughStage {
 public:
  /// Creates this rank's stage for the machine's loaded model `number`. `cpu_stage` is this rank's part of the model.
  /// `is_last` is true in the last pipeline stage. `report` combines all ranks' load reports and cache sizes.
  RankedStage(RankedCpu& machine, std::unique_ptr<Stage> cpu_stage, bool is_last, uint32_t number,
              const RankReport& report);

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  /// Starts a step. Throws core::Error for an observed step (Step::observed) in a pipeline.
  bool begin(const Step& step) override;
  void issue(const Operation& operation) override;

  [[nodiscard]] CacheFit cache_fit() const override { return fit_; }
  void load_adapter(int32_t number, const core::Adapter& adapter) override;
  void unload_adapter(int32_t number) override;

  Ticket fetch_logits() override { return in_pipeline() ? logits_ : PassThroughStage::fetch_logits(); }
  std::span<float> wait(Ticket ticket) override;
  void write(Slot slot, std::span<const float> values) override;

  /// Executes an order that was received from rank 0.
  void do_order(const Order& order);

 private:
  [[nodiscard]] bool in_pipeline() const { return machine_.n_stages() > 1; }
  [[nodiscard]] size_t max_outstanding_logits(const Step& step) const;
  void run(const Step& step);

  RankedCpu& machine_;
  bool is_last_;
  uint32_t number_;
  StageInfo info_;
  CacheFit fit_;
  bool observed_ = false;  ///< true: rank 0 sends each operation of the current step (Step::observed) as an order
  Ticket logits_{};        ///< rank 0 of a pipeline: ticket for the logits of the latest step that has any
  std::vector<float> residual_;
};

/// Splits a step's rows, in order, into steps of nearly equal size (micro-batches), so that a pipeline stage computes
/// one while the next stage computes the previous one. A short step is not split, since each micro-batch reads all
/// weights.
[[nodiscard]] std::vector<Step> pieces_of(const Step& step, size_t n_stages);

}  // namespace folio::infer
