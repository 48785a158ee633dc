// What the runner sees of a model on all ranks.
#pragma once

#include <memory>
#include <vector>

#include "infer/forward/pass_through.h"
#include "infer/ranks/net/orders.h"
#include "infer/ranks/net/ranked_cpu.h"

namespace folio::infer {

// On rank 0 a step is told to the others; without a pipeline rank 0 then does the forward's operations as they come,
// and otherwise the whole step at once. On another rank nothing comes from its own runner, which has no requests.
class RankedStage final : public PassThroughStage, public StageMemory, public PassThroughResults {
 public:
  /// Stage `number` of the machine, of which `cpu_stage` is this rank's part, with the last layers or not. `report` is
  /// of all ranks. As many steps may be in flight as there are pipeline stages.
  RankedStage(RankedCpu& machine, std::unique_ptr<Stage> cpu_stage, bool is_last, uint32_t number,
              const RankReport& report);

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  [[nodiscard]] StageMemory& memory() override { return *this; }
  [[nodiscard]] StageResults& results() override { return *this; }
  /// Throws core::Error for a step of a pipeline that is observed.
  bool begin(const Step& step) override;

  [[nodiscard]] CacheFit cache_fit() const override { return fit_; }
  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override;
  void unload_adapter(int32_t number) override;

  Ticket fetch_logits() override { return in_pipeline() ? logits_ : PassThroughResults::fetch_logits(); }
  std::span<float> wait(Ticket ticket) override;

  /// Of another rank than 0.
  void do_order(Order& order);

 private:
  [[nodiscard]] bool in_pipeline() const { return machine_.n_stages() > 1; }
  [[nodiscard]] size_t most_on_their_way(const Step& step) const;
  void run(const Step& step);
  template <typename Work>
  void or_give_up(Work&& work);

  RankedCpu& machine_;
  bool is_last_;
  uint32_t number_;
  StageInfo info_;
  CacheFit fit_;
  Ticket logits_{};  ///< of the last step
  std::vector<float> residual_;
};

/// The steps that a step of several pipeline stages is done in: its rows in order, in pieces of nearly the same length,
/// so that a stage computes one while the next stage has the one before. A short step stays whole: each piece reads all
/// of the weights.
[[nodiscard]] std::vector<Step> pieces_of(const Step& step, size_t n_stages);

}  // namespace folio::infer
