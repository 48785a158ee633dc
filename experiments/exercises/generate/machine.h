// An execution backend (infer::Machine) that calls the functions of the exercises. Folio provides the forward pass, the
// management of cache blocks and the engine's loop; infer/forward/machine.h documents the operations. Runs only plain
// Llamas, in float32, on one thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/exercises/generate/parts.h"
#include "infer/forward/machine.h"

namespace folio::exercises {

class ExerciseStage final : public infer::Stage {
 public:
  using Slot = infer::Slot;
  using WeightId = infer::WeightId;

  ExerciseStage(const Parts& parts, const core::StoredModel& model, infer::LayerRange layers);

  [[nodiscard]] const infer::StageInfo& info() const override { return info_; }
  bool begin(const infer::Step& step) override;
  void issue(const infer::Operation& operation) override;

  [[nodiscard]] infer::CacheFit cache_fit() const override;
  infer::Ticket fetch_logits() override { return {}; }
  std::span<float> wait(infer::Ticket /*ticket*/) override { return slots_[static_cast<size_t>(Slot::Logits)]; }
  infer::Ticket fetch_tokens() override { return static_cast<infer::Ticket>(n_steps_ % 2); }
  std::span<const int32_t> wait_tokens(infer::Ticket ticket) override { return drawn_[static_cast<size_t>(ticket)]; }
  void read(Slot slot, std::span<float> values) override;
  void write(Slot slot, std::span<const float> values) override;

 private:
  void run(const infer::Embed& o);
  void run(const infer::Norm& o);
  void run(const infer::Project& o);
  void run(const infer::ProjectToResidual& o);
  void run(const infer::RotateAndStore& o);
  void run(const infer::Attend& o);
  void run(const infer::Activate& o);
  void run(const infer::Gather& o);
  void run(const infer::FinishLogits& /*o*/) {}
  void run(const infer::DrawTokens& o);
  template <typename Other>
  void run(const Other& /*o*/) {  // operations that plain Llamas don't use
    core::fail("the exercises know no such operation");
  }
  [[nodiscard]] float* at(Slot slot) { return slots_[static_cast<size_t>(slot)].data(); }
  [[nodiscard]] const float* weight(WeightId id) const { return weights_[static_cast<size_t>(id.index)].data(); }
  [[nodiscard]] infer::BlockId block_of(const infer::StepRow& row, int64_t position) const;
  [[nodiscard]] float* cached(infer::BlockId block, int64_t layer, bool value, int64_t position);

  const Parts& parts_;
  const core::ModelConfig& config_;
  std::vector<std::vector<float>> weights_;  ///< indexed by WeightId
  infer::StageInfo info_;                    // declared after weights_, because initializing info_ fills weights_
  std::vector<std::vector<float>> cache_;    ///< indexed by BlockId; (layers, 2: keys and values, 32, kv_dim)

  // State of the current step: rows, block tables, draws and slots. Table i begins at tables_[table_starts_[i]].
  std::vector<infer::StepRow> rows_;
  std::vector<infer::BlockId> tables_;
  std::vector<int32_t> table_starts_;
  std::vector<infer::Draw> draws_;
  size_t n_rows_ = 0;  ///< number of rows in the slots; after infer::Gather, only the rows that need logits
  size_t n_steps_ = 0;
  std::array<std::vector<float>, infer::kSlots> slots_;
  std::array<std::vector<int32_t>, 2> drawn_;  ///< tokens drawn in the last two steps; step n's at index n % 2
  std::vector<float> scratch_;
};

class ExerciseMachine final : public infer::Machine {
 public:
  explicit ExerciseMachine(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] std::string describe() const override { return "the exercises' functions"; }
  /// Loads the weights in float32. Throws core::Error unless the model is a plain Llama.
  [[nodiscard]] std::unique_ptr<infer::Stage> load(const core::StoredModel& model, const infer::Shard& shard,
                                                   infer::CacheType cache_type) override;

 private:
  Parts parts_;
};

}  // namespace folio::exercises
