// A range of a model's layers on a GPU: the operations of a Stage as launches of the kernels. Norms, SwiGLU and sums
// with the residual are held back and done by the kernel that comes next. The operations of a step of few rows are
// recorded, and run again at once for other tokens, positions and blocks: all that changes lies in device memory, in
// one piece that begin() sends.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "infer/cuda/attention_plan.h"
#include "infer/cuda/cuda.h"
#include "infer/cuda/cuda_adapters.h"
#include "infer/cuda/cuda_experts.h"
#include "infer/cuda/cuda_weights.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/sample.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CudaStage final : public Stage {
 public:
  /// Throws core::Error if the weights don't fit the device.
  CudaStage(const CudaOptions& options, const gpu::DeviceInfo& device, const core::StoredModel& model,
            LayerRange layers, CacheType cache_type);
  ~CudaStage() override;

  [[nodiscard]] LayerRange layers() const override { return layers_; }
  [[nodiscard]] const StageWeights& weights() const override { return weights_.by_role(); }
  [[nodiscard]] size_t width(Slot slot) const override { return widths_[static_cast<size_t>(slot)]; }
  [[nodiscard]] size_t max_rows() const override { return options_.max_rows; }
  [[nodiscard]] CacheFit cache_fit() const override;
  void reserve_cache(int64_t n_blocks) override;
  [[nodiscard]] const LoadReport& load_report() const override { return weights_.report(); }

  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override;
  void unload_adapter(int32_t number) override;

  void begin(const Step& step) override;
  [[nodiscard]] bool replay() override;
  void embed(WeightId table) override;
  void norm(WeightId weight) override;
  void norm_heads(Slot slot, WeightId weight) override;
  void project(Slot in, std::span<const Projection> projections) override;
  void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) override;
  void rotate_and_store(int64_t layer) override;
  void attend(int64_t layer, WeightId sinks) override;
  void activate(Slot gate, Slot up) override;
  void route(const Router& router) override;
  void project_experts(const ExpertMatrix& gate, const ExpertMatrix& up) override;
  void combine_experts(const ExpertMatrix& down) override;
  void gate_rows(Slot slot, WeightId weight) override;
  void gather() override;
  void finish_logits() override;
  void draw() override;
  void end() override;
  Ticket fetch_logits() override;
  std::span<float> wait(Ticket ticket) override;
  [[nodiscard]] bool draws() const override;
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

  [[nodiscard]] static gpu::Routing routing_of(const core::ModelConfig& config);
  [[nodiscard]] static size_t packed_bytes(size_t n_rows, size_t k, gpu::Kind kind);
  [[nodiscard]] float* at(Slot slot) const;
  [[nodiscard]] const float* vector_or_null(WeightId id) const { return id.exists() ? weights_.vector(id) : nullptr; }
  [[nodiscard]] gpu::Attention attention_of_step() const;
  void abandon_recording();
  void send(const Step& step);
  void make_room(const Step& step);
  void grow(gpu::DeviceMemory& memory, size_t bytes);
  /// Where packed rows of a slot lie.
  [[nodiscard]] gpu::PackedInputs inputs(Slot slot, gpu::Kind kind) const;
  gpu::PackedInputs pack(Slot slot, gpu::Kind kind);
  [[nodiscard]] gpu::DeviceMemory angles_of(const std::vector<double>& frequencies, float magnitude);
  [[nodiscard]] bool has_local_angles(int64_t layer) const {
    return config_.local_rope_theta > 0.0F && config_.has_window(layer);
  }
  /// What is to be added to Residual, which is then done.
  gpu::Delta take_delta();
  void flush();
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
  LayerRange layers_;
  int64_t widest_window_;  ///< positions that a row sees in any layer
  SlotWidths widths_;
  CudaWeights weights_;
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
  bool has_adapters_ = false;  ///< its rows
  Shape shape_{};
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

  // Operations that are held back.
  bool gather_pending_ = false;  ///< it is done behind attend(), which takes all rows
  bool gathered_rows_ = false;   ///< Residual is gathered_, and Heads lie in Query's memory
  bool delta_pending_ = false;   ///< Branch is not added to Residual yet
  std::optional<WeightId> norm_pending_;
  std::optional<std::pair<Slot, Slot>> activate_pending_;

  std::map<Shape, gpu::Recording> recordings_;
  bool recording_ = false;
};

}  // namespace folio::infer
