// A range of a model's layers on a GPU: the operations of a Stage as launches of the kernels. They are held back until
// the step ends, and fused (fuse.h), unless somebody observes the step. The launches of a step of few rows are
// recorded, and run again at once for other tokens, positions and blocks: all that changes is in device memory, in one
// piece that begin() sends.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "infer/cuda/attention_plan.h"
#include "infer/cuda/cuda.h"
#include "infer/cuda/cuda_adapters.h"
#include "infer/cuda/cuda_experts.h"
#include "infer/cuda/cuda_weights.h"
#include "infer/cuda/fuse.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/sample.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CudaStage final : public Stage, public StageMemory, public StageResults {
 public:
  /// Throws core::Error if the weights don't fit the device.
  CudaStage(const CudaOptions& options, const gpu::DeviceInfo& device, const core::StoredModel& model,
            LayerRange layers, CacheType cache_type);
  ~CudaStage() override;

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  [[nodiscard]] StageMemory& memory() override { return *this; }
  [[nodiscard]] StageResults& results() override { return *this; }
  [[nodiscard]] bool begin(const Step& step) override;
  void issue(const Operation& operation) override;
  void end() override;

  [[nodiscard]] CacheFit cache_fit() const override;
  void reserve_cache(int64_t n_blocks) override;
  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override;
  void unload_adapter(int32_t number) override;

  Ticket fetch_logits() override;
  std::span<float> wait(Ticket ticket) override;
  Ticket fetch_tokens() override;
  std::span<const int32_t> wait_tokens(Ticket ticket) override;
  void read(Slot slot, std::span<float> values) override;
  void write(Slot slot, std::span<const float> values) override;

 private:
  /// What the launches of a step depend on: rows, of them with logits, draws, items, slots, parts, adapters or none.
  using Shape = std::tuple<size_t, size_t, size_t, size_t, size_t, size_t, bool>;
  /// Where the parts of the piece begin that begin() sends, in bytes.
  struct Places {
    size_t draws, tokens, positions, tables, adapters, logit_rows, logit_adapters, items;
  };
  static constexpr size_t kKinds = 4;
  /// Tokens on their way to the host.
  struct Drawn {
    gpu::PinnedMemory tokens{};
    gpu::Event arrived{};
    size_t n = 0;
  };

  void run(const Embed& o, const Fused& fused);
  void run(const Norm& o, const Fused& fused);
  void run(const NormHeads& o, const Fused& fused);
  void run(const Project& o, const Fused& fused);
  void run(const ProjectToResidual& o, const Fused& fused);
  void run(const RotateAndStore& o, const Fused& fused);
  void run(const Attend& o, const Fused& fused);
  void run(const Activate& o, const Fused& fused);
  void run(const Route& o, const Fused& fused);
  void run(const ProjectExperts& o, const Fused& fused);
  void run(const CombineExperts& o, const Fused& fused);
  void run(const GateRows& o, const Fused& fused);
  void run(const Gather& /*o*/, const Fused& /*fused*/) {}  // Attend does it
  void run(const FinishLogits& o, const Fused& fused);
  void run(const DrawTokens& o, const Fused& fused);

  [[nodiscard]] static gpu::Routing routing_of(const core::ModelConfig& config);
  [[nodiscard]] static size_t packed_bytes(size_t n_rows, size_t k, gpu::Kind kind);
  [[nodiscard]] float* at(Slot slot) const;
  [[nodiscard]] const float* vector_or_null(WeightId id) const { return id.exists() ? weights_.vector(id) : nullptr; }
  [[nodiscard]] gpu::Attention attention_of_step() const;
  void send(const Step& step);
  void make_room(const Step& step);
  void grow(gpu::DeviceMemory& memory, size_t bytes);
  /// Where packed rows of a slot lie.
  [[nodiscard]] gpu::PackedInputs inputs(Slot slot, gpu::Kind kind) const;
  gpu::PackedInputs pack(Slot slot, gpu::Kind kind, const Fused& fused);
  void norm_and_pack(const Norm& norm, bool adds_branch, const gpu::PackedInputs& to);
  [[nodiscard]] gpu::DeviceMemory angles_of(const std::vector<double>& frequencies, float magnitude);
  [[nodiscard]] bool has_local_angles(int64_t layer) const {
    return config_.local_rope_theta > 0.0F && config_.has_window(layer);
  }
  [[nodiscard]] gpu::Delta branch() const { return {at(Slot::Branch), config_.residual_scale}; }
  void flush();
  void record();
  void forget_recordings();
  void gather_rows();
  void adapt(Slot in, WeightId weight, float* out);
  [[nodiscard]] size_t bytes_for_experts(size_t n_rows) const;
  [[nodiscard]] size_t widest_of_experts() const;
  void make_room_for_experts();
  /// Where the packed rows of the step's takings lie.
  [[nodiscard]] gpu::PackedInputs expert_inputs(size_t k, gpu::Kind kind) const;

  CudaOptions options_;
  gpu::DeviceInfo device_;
  gpu::Stream stream_;
  const core::ModelConfig& config_;
  int64_t widest_window_;  ///< positions that a row sees in any layer
  CudaWeights weights_;
  StageInfo info_;
  gpu::Heads heads_;
  gpu::Activation activation_;
  gpu::Kind any_kind_;  ///< of the weights: what a row is packed as that no product waits for

  gpu::DeviceMemory cache_memory_;
  gpu::CacheView cache_;
  gpu::DeviceMemory angles_;        ///< cosines, then sines: (positions, rotated / 2) each
  gpu::DeviceMemory local_angles_;  ///< of layers with a window, where they have a base of their own
  size_t n_angles_ = 0;             ///< positions

  // Activations, for as many rows as a step has had.
  std::array<gpu::DeviceMemory, kSlots> slots_;
  gpu::DeviceMemory gathered_;  ///< Residual's rows that need logits; Heads' lie in Query's memory
  std::array<gpu::DeviceMemory, kKinds> packed_data_;
  gpu::DeviceMemory row_scales_;
  gpu::DeviceMemory partials_;
  gpu::DeviceMemory counters_;
  gpu::DeviceMemory draw_workspace_;
  gpu::DeviceMemory tokens_;  ///< the last draws, for as many rows as a step may have: the next step may take them

  CudaAdapters adapters_;
  CudaExperts experts_;

  // The step in hand.
  bool has_adapters_ = false;   ///< its rows
  std::optional<Shape> shape_;  ///< that it is recorded for
  std::vector<Operation> held_;
  AttentionPlan attention_;
  std::vector<gpu::DrawInput> draws_;
  std::vector<int32_t> ids_;
  size_t n_rows_ = 0;  ///< rows in the slots: the step's, after gather() those that need logits
  size_t n_logit_rows_ = 0;
  bool observed_ = false;
  gpu::PinnedMemory sent_;
  gpu::Event sent_arrived_;
  gpu::DeviceMemory step_;
  Places places_{};
  gpu::PinnedMemory logits_;
  std::array<Drawn, 2> drawn_;  ///< of the last step that drew, and of the one before
  uint64_t n_fetched_ = 0;      ///< times that tokens were

  bool gathered_rows_ = false;  ///< Residual is gathered_, and Heads are in Query's memory

  std::map<Shape, gpu::Recording> recordings_;
};

}  // namespace folio::infer
