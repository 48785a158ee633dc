// A range of a model's layers on the CPU. Each operation is complete when its call returns. Work is divided among
// threads by index, so results don't depend on the number of threads. If several ranks share the model, each has some
// output rows of each matrix and some key/value heads, and the ranks exchange the columns that they compute.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <variant>
#include <vector>

#include "core/aligned_vector.h"
#include "infer/cpu/cache_blocks.h"
#include "infer/cpu/cpu.h"
#include "infer/cpu/cpu_adapters.h"
#include "infer/cpu/cpu_experts.h"
#include "infer/cpu/cpu_weights.h"
#include "infer/cpu/packed_inputs.h"
#include "infer/cpu/product_inputs.h"
#include "infer/cpu/rope_table.h"

namespace folio::infer {

class CpuStage final : public Stage {
 public:
  CpuStage(Cpu& cpu, const core::StoredModel& model, const Shard& shard, CacheType cache_type);

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  [[nodiscard]] bool begin(const Step& step) override;
  void issue(const Operation& operation) override;

  [[nodiscard]] CacheFit cache_fit() const override;
  void load_adapter(int32_t number, const core::Adapter& adapter) override {
    adapters_.load(number, adapter, layers(), weights_);
  }
  void unload_adapter(int32_t number) override { adapters_.unload(number); }

  Ticket fetch_logits() override { return Ticket{}; }
  std::span<float> wait(Ticket ticket) override;
  void read(Slot slot, std::span<float> values) override;
  void write(Slot slot, std::span<const float> values) override;

 private:
  template <typename T>
  struct Cache {
    CacheBlocks<T> blocks;
    std::vector<const T*> starts;  ///< addresses of the blocks in the step's block tables, concatenated
  };

  void run(const Embed& o);
  void run(const Norm& o);
  void run(const NormHeads& o);
  void run(const Project& o);
  void run(const ProjectToResidual& o);
  void run(const ProjectHeads& o);
  void run(const RotateAndStore& o);
  void run(const Attend& o);
  void run(const Activate& o);
  void run(const Route& o);
  void run(const ProjectExperts& o);
  void run(const CombineExperts& o);
  void run(const GateRows& o);
  void run(const Gather& o);
  void run(const FinishLogits& o);
  void run(const DrawTokens& /*o*/) {}  // no-op: the host draws tokens from the logits

  template <typename T>
  [[nodiscard]] Cache<T> cache_of() const;
  // Hides Stage::width(), to avoid its virtual call of info().
  [[nodiscard]] size_t width(Slot slot) const { return info_.widths[static_cast<size_t>(slot)]; }
  float* at(Slot slot) { return slots_[static_cast<size_t>(slot)].data(); }
  void multiply(Slot in, std::span<const Projection> projections, bool accumulate);
  /// Calls body(row) for each row, on all threads. `work` is the cost of a row in multiply-adds.
  template <typename Body>
  void for_rows(size_t work, Body&& body) {
    pool_.parallel_for(n_rows_, 1, n_rows_ * work / kWorthAThread, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) body(row);
    });
  }
  void group_rows();
  [[nodiscard]] std::vector<size_t> find_runs(int64_t window) const;
  [[nodiscard]] Share columns_of(Slot slot) const { return rows_of_rank(width(slot), shard_.rank, shard_.n_ranks); }
  void exchange(std::initializer_list<Slot> slots, bool in_eight_bits = false);
  void exchange_assignments(Slot slot, bool in_eight_bits);
  /// Returns true if ranks exchange this matrix's input in 8 bits: the matrix is group-quantized, and needs_floats_ is
  /// false.
  [[nodiscard]] bool rounds_input(core::Role role) const;
  void norm_vectors(const float* x, WeightId weight, float eps, size_t n_vectors, size_t dim, float* out);
  /// Returns the first position that a row at `position` attends to, with a window of `window` positions.
  [[nodiscard]] static int64_t first_seen(int64_t position, int64_t window) {
    return std::max<int64_t>(0, position + 1 - window);
  }
  template <typename T>
  void attend(const Cache<T>& cache, size_t layer, int64_t window, std::span<const size_t> runs, const float* sinks);
  [[nodiscard]] const float* vector_or_null(WeightId id) const { return id.exists() ? weights_.vector(id) : nullptr; }

  core::ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  const core::ModelConfig& config_;
  Shard shard_;
  Share kv_heads_;  ///< this rank's key/value heads; in latent attention, its query heads
  CpuWeights weights_;
  StageInfo info_;
  std::variant<Cache<float>, Cache<kernels::F16>, Cache<kernels::Q8>, Cache<kernels::BF16Pair>> cache_;
  RopeTable rope_;
  RopeTable local_rope_;  ///< for sliding-window layers, if the model has a separate RoPE base for them
  CpuAdapters adapters_;
  CpuExperts experts_{pool_, kernels_};

  // State of the current step.
  std::vector<StepRow> rows_;
  std::vector<BlockId> tables_;
  std::vector<int32_t> table_starts_;
  int64_t layer_ = 0;                ///< layer of the last Attend, for rounds_input()
  bool needs_floats_ = false;        ///< ranks exchange F32 only, because the step is observed or a row has an adapter
  size_t n_rows_ = 0;                ///< rows in the slots: all rows of the step; after Gather, those that need logits
  std::vector<size_t> runs_;         ///< first row of each run, then n_rows_; a run's rows share an attention() call
  std::vector<size_t> window_runs_;  ///< runs_ for sliding-window layers
  std::array<core::AlignedVector<float>, kSlots> slots_;

  PackedInputs packed_{pool_, kernels_};   ///< inputs of Kernels::matmul_packed
  ProductInputs inputs_{pool_, kernels_};  ///< inputs of all other products
};

}  // namespace folio::infer
