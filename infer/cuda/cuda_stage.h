// A range of a model's layers on a GPU. Operations are queued until the step ends, then fused (fuse.h) and launched; an
// observed step runs them one by one. The launches of a step with few rows are recorded as a CUDA graph. It can be
// replayed for other tokens, positions and blocks, because begin() uploads all such data to one device buffer.
#pragma once

#include <array>
#include <map>
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

class CudaStage final : public Stage {
 public:
  /// Loads the weights. Throws core::Error if they don't fit in device memory.
  CudaStage(const CudaOptions& options, const gpu::DeviceInfo& device, const core::StoredModel& model,
            LayerRange layers, CacheType cache_type);
  ~CudaStage() override;

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  [[nodiscard]] bool begin(const Step& step) override;
  void issue(const Operation& operation) override;
  void end() override;

  [[nodiscard]] CacheFit cache_fit() const override;
  void reserve_cache(int64_t n_blocks) override;
  void load_adapter(int32_t number, const core::Adapter& adapter) override;
  void unload_adapter(int32_t number) override;

  Ticket fetch_logits() override;
  std::span<float> wait(Ticket ticket) override;
  Ticket fetch_tokens() override;
  std::span<const int32_t> wait_tokens(Ticket ticket) override;
  void read(Slot slot, std::span<float> values) override;
  void write(Slot slot, std::span<const float> values) override;

 private:
  /// Key of a recording: numbers of rows, logit rows, draws, attention items, slots and parts; then has_adapters_ and
  /// Step::keeps_hidden.
  using Shape = std::tuple<size_t, size_t, size_t, size_t, size_t, size_t, bool, bool>;
  /// Byte offsets of these arrays in the data that begin() uploads.
  struct Places {
    size_t draws, tokens, positions, tables, adapters, logit_rows, logit_adapters, items;
  };
  static constexpr size_t kKinds = 4;
  /// Drawn tokens that are being copied to the host.
  struct Drawn {
    gpu::PinnedMemory tokens{};
    gpu::Event arrived{};
    size_t n = 0;
  };

  void run(const Embed& o, const FusedOperation& fused);
  void run(const Norm& o, const FusedOperation& fused);
  void run(const NormHeads& o, const FusedOperation& fused);
  void run(const Project& o, const FusedOperation& fused);
  void run(const ProjectToResidual& o, const FusedOperation& fused);
  void run(const ProjectHeads& o, const FusedOperation& fused);
  void run(const RotateAndStore& o, const FusedOperation& fused);
  void run(const Attend& o, const FusedOperation& fused);
  void run(const Activate& o, const FusedOperation& fused);
  void run(const Route& o, const FusedOperation& fused);
  void run(const ProjectExperts& o, const FusedOperation& fused);
  void run(const CombineExperts& o, const FusedOperation& fused);
  void run(const GateRows& o, const FusedOperation& fused);
  void run(const Gather& o, const FusedOperation& fused);
  void run(const FinishLogits& o, const FusedOperation& fused);
  void run(const DrawTokens& o, const FusedOperation& fused);

  [[nodiscard]] static size_t packed_bytes(size_t n_rows, size_t k, gpu::Kind kind);
  [[nodiscard]] float* at(Slot slot) const;
  [[nodiscard]] const float* vector_or_null(WeightId id) const { return id.exists() ? weights_.vector(id) : nullptr; }
  [[nodiscard]] gpu::Attention attention_of_step() const;
  /// Returns the slot of attention's queries; attended() returns the slot of its outputs.
  [[nodiscard]] Slot queries() const { return config_.latent() ? Slot::Absorbed : Slot::Query; }
  [[nodiscard]] Slot attended() const { return config_.latent() ? Slot::Attended : Slot::Heads; }
  void send(const Step& step);
  void reserve_buffers(const Step& step);
  void grow(gpu::DeviceMemory& memory, size_t bytes);
  /// Returns the buffer for a slot's packed rows.
  [[nodiscard]] gpu::PackedInputs inputs(Slot slot, gpu::Kind kind) const;
  gpu::PackedInputs pack(Slot slot, gpu::Kind kind, const FusedOperation& fused);
  void norm_and_pack(const Norm& norm, bool adds_branch, const gpu::PackedInputs& to);
  [[nodiscard]] gpu::DeviceMemory angles_of(const std::vector<double>& frequencies, float magnitude);
  [[nodiscard]] gpu::Delta branch() const { return {at(Slot::Branch), config_.residual_scale}; }
  void flush();
  void forget_recordings();
  void gather_rows();
  void adapt(Slot in, WeightId weight, float* out);
  [[nodiscard]] size_t bytes_for_experts(size_t n_rows) const;
  [[nodiscard]] size_t widest_of_experts() const;
  void make_room_for_experts();
  /// Returns the buffer for the packed inputs of the step's (row, expert) assignments.
  [[nodiscard]] gpu::PackedInputs expert_inputs(size_t k, gpu::Kind kind) const;

  CudaOptions options_;
  gpu::DeviceInfo device_;
  gpu::Stream stream_;
  const core::ModelConfig& config_;
  int64_t widest_window_;  ///< maximum number of positions that a row attends to, over all layers
  CudaWeights weights_;
  StageInfo info_;
  gpu::Heads heads_;  ///< of attention: with latents, one key/value head, and head_dim is a latent's size
  gpu::Activation activation_;
  gpu::Kind any_kind_;  ///< format in which a Norm packs its result if no product reads it

  gpu::DeviceMemory cache_memory_;
  gpu::CacheView cache_;
  gpu::DeviceMemory angles_;        ///< cosines, then sines: (positions, rotated / 2) each
  gpu::DeviceMemory local_angles_;  ///< for sliding-window layers, if the model has a separate RoPE base for them
  size_t n_angles_ = 0;             ///< number of positions in angles_

  // Activations, with capacity for the largest step so far.
  std::array<gpu::DeviceMemory, kSlots> slots_;
  gpu::DeviceMemory gathered_;  ///< after Gather: Residual's rows that need logits
  std::array<gpu::DeviceMemory, kKinds> packed_data_;
  gpu::DeviceMemory row_scales_;
  gpu::DeviceMemory partials_;
  gpu::DeviceMemory counters_;
  gpu::DeviceMemory draw_workspace_;
  gpu::DeviceMemory tokens_;  ///< last drawn tokens (max_rows), which the next step may read

  CudaAdapters adapters_;
  CudaExperts experts_;

  // State of the current step.
  bool has_adapters_ = false;   ///< any row has an adapter
  std::optional<Shape> shape_;  ///< key under which the step will be recorded; nullopt: not recorded
  std::vector<Operation> held_;
  AttentionPlan attention_;
  std::vector<gpu::DrawInput> draws_;
  std::vector<int32_t> ids_;
  size_t n_rows_ = 0;  ///< rows in the slots: all rows of the step; after Gather, those that need logits
  size_t n_logit_rows_ = 0;
  bool observed_ = false;
  gpu::PinnedMemory sent_;
  gpu::Event sent_arrived_;
  gpu::DeviceMemory step_;
  Places places_{};
  gpu::PinnedMemory logits_;
  std::array<Drawn, 2> drawn_;  ///< tokens of the last two fetch_tokens() calls, in alternating slots
  uint64_t n_fetched_ = 0;      ///< number of fetch_tokens() calls

  bool gathered_rows_ = false;  ///< rows were gathered: at(Residual) is gathered_, at(attended()) is at(queries())

  std::map<Shape, gpu::Recording> recordings_;
};

}  // namespace folio::infer
