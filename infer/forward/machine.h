// The interface of a machine: a CPU, a GPU, one rank of several. A machine is the device, and may serve several models;
// a Stage is a range of one model's layers on it, with weights, activations and cache blocks. Operations are values and
// may be asynchronous: only StageResults waits. begin() copies what they need of the step's rows. So a machine may
// record a step and replay it for other tokens, positions and tables, or hold operations back and fuse them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/adapter.h"
#include "core/weights.h"
#include "infer/cache/block_manager.h"
#include "infer/forward/exchange.h"
#include "infer/forward/operation.h"
#include "infer/forward/slots.h"
#include "infer/forward/stage_weights.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

/// Positions that a row attends to at most, up to its own: the sliding window, or the whole context.
[[nodiscard]] int64_t positions_seen(const core::ModelConfig& config, int64_t layer = 0);

/// In place of a token: the one that the step before drew as its draw `index`, which the host may not have seen yet.
[[nodiscard]] constexpr int32_t drawn_token(size_t index) { return -1 - static_cast<int32_t>(index); }

/// One row of a step. `table` is the index of its sequence's block table in the step.
struct StepRow {
  int32_t token;  ///< or drawn_token(), for a stage that draws
  int32_t table;
  int64_t position;
  bool needs_logits;             ///< gather() keeps it
  int32_t adapter = kNoAdapter;  ///< one that was loaded
};

/// A token to be drawn.
struct Draw {
  size_t row;                        ///< of those that need logits
  Sampler* sampler;                  ///< its options and what it suppresses; on the host it draws
  std::span<const int32_t> history;  ///< the sequence so far, but for a token that was drawn and not seen yet
  int64_t position;                  ///< of the token in its sequence
};

/// What a step brings from the host. begin() copies what it needs of the spans, and of the samplers.
struct Step {
  std::span<const StepRow> rows;          ///< rows of a sequence are in order of position; at most max_rows()
  std::span<const BlockId> tables;        ///< the block tables of the step's sequences, one after the other
  std::span<const int32_t> table_starts;  ///< (sequences + 1): where each begins, and at last the end
  std::span<const BlockCopy> copies;      ///< to be done before the step's first operation
  size_t n_logit_rows = 0;                ///< rows that need logits
  std::span<const Draw> draws;            ///< for a stage that draws itself, in order of their rows
  bool observed = false;                  ///< slots are read between operations: neither fuse nor replay
  bool may_replay = true;                 ///< otherwise each operation is issued, even if the step was recorded
  std::span<const float> residual{};      ///< (rows, dim) from the stage before; empty for the first one
};

inline constexpr size_t kMaxRows = 256;  ///< rows of a step on a CPU

/// The type of keys and values in the cache. Q8_0: 8 bits, with a scale for each group of 32 (kernels::Q8); CPUs alone.
enum class CacheType : uint8_t { F32, F16, Q8_0 };

/// What LoadedModel takes if nothing else was asked for: F16, but F32 for a model whose matrices of keys or values are
/// F32, where rounding would be seen.
[[nodiscard]] CacheType default_cache_type(const core::StoredModel& model);

struct CacheFit {
  size_t block_bytes;  ///< of one block: the stage's layers
  int64_t n_blocks;    ///< as many as the machine's memory holds beside the weights
};

/// What loading the weights took.
struct LoadReport {
  uint64_t weight_bytes = 0;    ///< in the machine's memory; each is read once for a token in decoding
  uint64_t repacked_bytes = 0;  ///< of them those that have another layout than in the file
  double repack_seconds = 0.0;
};

/// What a stage has of a model: some layers, and of each matrix there the output rows of one rank of several (see
/// exchange.h). Key/value heads are shared out as evenly as they go, and with them attention and the cache.
struct Shard {
  LayerRange layers;
  size_t rank = 0;
  size_t n_ranks = 1;
  Exchange* exchange = nullptr;  ///< of several ranks; has to outlive the stage
};

/// Throws core::Error if the shard is one of several. `who` has whole matrices alone.
void require_whole(const Shard& shard, const char* who);

/// Throws core::Error if n_ranks `who`, such as "shards", are more than the model's width has tiles.
void require_tiles(const core::StoredModel& model, size_t n_ranks, const char* who, const char* remedy);

/// What one rank of a model has loaded, and what its memory holds.
struct RankReport {
  LoadReport load;
  CacheFit fit;
};

/// Returns the report of all ranks of a host together: they load at once, and share its memory.
[[nodiscard]] RankReport sum_of(std::span<const RankReport> ranks);

/// Facts of a stage that hold from its loading on.
struct StageInfo {
  LayerRange layers;
  StageWeights weights;
  SlotWidths widths;  ///< elements of a row in each slot
  LoadReport load_report;
  size_t max_rows = kMaxRows;  ///< of a step
  /// Steps that may be in flight: the one whose logits are waited for, and those that were begun since. They are done
  /// in order, and overlap.
  size_t steps_in_flight = 1;
  bool draws = false;  ///< it draws tokens itself; otherwise steps have no draws, and the host draws from the logits
};

/// The memory of a stage that is filled after loading: its cache and its adapters.
class StageMemory {
 public:
  virtual ~StageMemory() = default;
  [[nodiscard]] virtual CacheFit cache_fit() const = 0;
  /// Called once, before the first step, with the number of blocks that the cache will have: at most cache_fit()'s.
  virtual void reserve_cache(int64_t /*n_blocks*/) {}
  /// Brings what the adapter adds to the stage's matrices to the machine. Rows name it by `number`, at least 0. Throws
  /// core::Error if the machine runs no adapters, which is the default.
  virtual void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter);
  /// Steps that were begun still use it. Does nothing if there is none of that number.
  virtual void unload_adapter(int32_t /*number*/) {}
};

/// A copy to the host that is on its way.
enum class Ticket : uint64_t {};

/// Copies between a stage's slots and the host's memory.
class StageResults {
 public:
  virtual ~StageResults() = default;
  /// Requests Slot::Logits.
  virtual Ticket fetch_logits() = 0;
  /// Waits for them: (rows that need logits, vocab_size), the caller's to overwrite until the next begin(). Tickets
  /// come in order; one that is left out is never asked for again.
  virtual std::span<float> wait(Ticket ticket) = 0;
  /// Requests the tokens that were drawn, from a stage that draws.
  virtual Ticket fetch_tokens() { return {}; }
  /// Waits for them, but not for a step that was begun since: (draws), each a token, kNotFinite or kNothingLeft. They
  /// stay until the second begin() after that of their step. The row of a drawn_token() that is none has any values.
  virtual std::span<const int32_t> wait_tokens(Ticket /*ticket*/) { return {}; }
  /// Copies a slot's rows to the host, or from it, and waits. For observers, and to hand Residual on between stages.
  virtual void read(Slot slot, std::span<float> values) = 0;
  virtual void write(Slot slot, std::span<const float> values) = 0;
};

class Stage {
 public:
  virtual ~Stage() = default;

  [[nodiscard]] virtual const StageInfo& info() const = 0;
  [[nodiscard]] virtual StageMemory& memory() = 0;
  [[nodiscard]] virtual StageResults& results() = 0;

  /// Brings the step's data to the machine. Returns true if the machine had recorded a step of this shape and has
  /// issued it anew: neither operations nor end() follow. Throws std::bad_alloc if the blocks don't fit.
  [[nodiscard]] virtual bool begin(const Step& step) = 0;
  /// Adds an operation to the step. Throws core::Error for one that the machine does not run: machines without experts
  /// reject the models that have some when they load.
  virtual void issue(const Operation& operation) = 0;
  /// All operations of the step are issued.
  virtual void end() {}

  [[nodiscard]] LayerRange layers() const { return info().layers; }
  [[nodiscard]] const StageWeights& weights() const { return info().weights; }
  [[nodiscard]] size_t width(Slot slot) const { return info().widths[static_cast<size_t>(slot)]; }

  // Each issues the operation of its name: see operation.h.
  void embed(WeightId table) { issue(Embed{table}); }
  void norm(WeightId weight) { issue(Norm{weight}); }
  /// Throws core::Error unless the slot is Query or Key.
  void norm_heads(Slot slot, WeightId weight);
  template <size_t N>
  void project(Slot in, const std::array<Projection, N>& projections) {
    issue(Project(in, projections));
  }
  void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) {
    issue(ProjectToResidual{in, weight, bias, post_norm});
  }
  void rotate_and_store(int64_t layer) { issue(RotateAndStore{layer}); }
  void attend(int64_t layer, WeightId sinks) { issue(Attend{layer, sinks}); }
  void activate(Slot gate, Slot up) { issue(Activate{gate, up}); }
  void route(const Route& router) { issue(router); }
  void project_experts(const ExpertMatrix& gate, const ExpertMatrix& up) { issue(ProjectExperts{gate, up}); }
  void combine_experts(const ExpertMatrix& down) { issue(CombineExperts{down}); }
  void gate_rows(Slot slot, WeightId weight) { issue(GateRows{slot, weight}); }
  void gather() { issue(Gather{}); }
  void finish_logits() { issue(FinishLogits{}); }
  void draw() { issue(DrawTokens{}); }
};

class Machine {
 public:
  virtual ~Machine() = default;
  /// For people: "2 threads, avx512vnni".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Loads a shard's weights; with the first layer the embedding, with the last the output. `model` has to outlive the
  /// stage. Throws core::Error if a tensor is of a type, or the model of a shape, that the machine doesn't run, or if
  /// it runs whole matrices alone and the shard is one of several.
  [[nodiscard]] virtual std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                                    CacheType cache_type) = 0;
};

}  // namespace folio::infer
