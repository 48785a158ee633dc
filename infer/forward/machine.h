// The interface of a machine: a CPU, a GPU, or one rank of several. A Stage is a range of a model's layers on a
// machine, with weights, activations and KV cache. Operations are values and may run asynchronously; the host waits
// only for results. begin() copies the step's data, so a machine may record a step and replay it with other tokens,
// positions and block tables, or delay operations to fuse them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/adapter.h"
#include "core/error.h"
#include "core/weights.h"
#include "infer/cache/block_manager.h"
#include "infer/forward/exchange.h"
#include "infer/forward/operation.h"
#include "infer/forward/slots.h"
#include "infer/forward/stage_weights.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

/// Returns the maximum number of positions a row attends to, itself included: the sliding window or the whole context.
[[nodiscard]] int64_t positions_seen(const core::ModelConfig& config, int64_t layer = 0);

/// Returns a placeholder for the token of draw `index` in the previous step, for use before the host has read it.
[[nodiscard]] constexpr int32_t drawn_token(size_t index) { return -1 - static_cast<int32_t>(index); }

/// A row of a step: a token at a position of a sequence. `table` is the index of the sequence's block table.
struct StepRow {
  int32_t token;  ///< token id; if the stage draws, also drawn_token(i): the token of the previous step's i-th draw
  int32_t table;
  int64_t position;
  bool needs_logits;
  int32_t adapter = kNoAdapter;  ///< id of a loaded adapter; kNoAdapter: none
};

/// One token to draw from a row's logits.
struct Draw {
  size_t row;                        ///< index among the rows that need logits
  Sampler* sampler;                  ///< the sequence's sampler; a stage that draws reads only its options
  std::span<const int32_t> history;  ///< the sequence's tokens that the host has read so far
  int64_t position;                  ///< position of the drawn token in its sequence
};

/// A step's inputs from the host. begin() copies what it needs from the spans and samplers.
struct Step {
  std::span<const StepRow> rows;          ///< at most max_rows(); rows of a sequence in order of position
  std::span<const BlockId> tables;        ///< the block tables of the step's sequences, concatenated
  std::span<const int32_t> table_starts;  ///< (sequences + 1): start of each table in `tables`, then tables.size()
  std::span<const BlockCopy> copies;      ///< block copies to execute before the first operation
  size_t n_logit_rows = 0;                ///< number of rows that need logits
  std::span<const Draw> draws;            ///< tokens to draw, in row order; empty if the host draws
  bool observed = false;                  ///< true: slots are read between operations, which forbids fusion and replay
  bool may_replay = true;                 ///< false: issue all operations, even if the step was recorded
  std::span<const float> residual{};      ///< (rows, dim): output of the previous stage; empty for the first
  bool keeps_hidden = false;              ///< true: the last stage computes Slot::Hidden of all rows
};

inline constexpr size_t kMaxRows = 256;  ///< maximum rows per step on a CPU

/// Element type of the KV cache. Q8_0: 8 bits, with a scale for each group of 32 (kernels::Q8); CPU only.
enum class CacheType : uint8_t { F32, F16, Q8_0 };

/// Returns the cache type that LoadedModel uses by default: F16, or F32 if the type of a Wk, Wv or WkvA matrix is F32,
/// since rounding keys, values or latents to F16 would then lose precision.
[[nodiscard]] CacheType default_cache_type(const core::StoredModel& model);

struct CacheFit {
  size_t block_bytes;  ///< bytes per block, for all layers of the stage
  int64_t n_blocks;    ///< number of blocks that fit into the memory that the weights leave free
};

/// The memory that the loaded weights use, and the time spent on repacking them.
struct LoadReport {
  uint64_t weight_bytes = 0;    ///< size in the machine's memory; upper bound on the weights read to decode a token
  uint64_t repacked_bytes = 0;  ///< part of weight_bytes stored in another layout than in the file
  double repack_seconds = 0.0;
};

/// The part of a model in a stage: some layers and, for one of several ranks, some output rows of each matrix
/// (exchange.h). Key/value heads, with attention and the KV cache, are split between ranks as evenly as possible.
struct Shard {
  LayerRange layers;
  size_t rank = 0;
  size_t n_ranks = 1;
  Exchange* exchange = nullptr;  ///< required if n_ranks > 1; must outlive the stage
};

/// Thrown if a machine cannot compute a step for a reason that is not the request's, such as an error of a GPU.
class MachineError : public core::Error {
 public:
  using core::Error::Error;
};

/// Thrown if a part of a machine has failed permanently, such as a rank whose process exited. Later steps fail, too.
class MachineLost : public MachineError {
 public:
  using MachineError::MachineError;
};

/// For machines that can't split matrices: throws core::Error, with the machine's `name`, unless n_ranks is 1.
void require_whole(const Shard& shard, const char* name);

/// Throws core::Error if a matrix of dim rows (the model's width) has fewer tiles of kShardRows rows than n_ranks.
/// The message ends with "too few for N {name}; use fewer {remedy}".
void require_tiles(const core::StoredModel& model, size_t n_ranks, const char* name, const char* remedy);

/// The load report and cache capacity of one rank.
struct RankReport {
  LoadReport load;
  CacheFit fit;
};

/// Returns one report for all ranks: the sums of their bytes, the longest repacking time, since they load in parallel,
/// and the number of blocks that fit into the memory of every host together with the weights of all its ranks. Each
/// host has `n_local` consecutive ranks.
[[nodiscard]] RankReport sum_of(std::span<const RankReport> ranks, size_t n_local);

/// Properties of a stage that are fixed once it is loaded.
struct StageInfo {
  LayerRange layers;
  StageWeights weights;
  SlotWidths widths;  ///< elements per row in each slot
  LoadReport load_report;
  size_t max_rows = kMaxRows;  ///< maximum rows per step
  /// Maximum number of steps that may be begun before the results of the first one are read. Steps finish in order.
  size_t steps_in_flight = 1;
  bool draws = false;        ///< true: the stage draws tokens; false: the host draws them from the logits
  bool writable = true;      ///< false: no observers, and the host cannot set activations
  bool keeps_hidden = true;  ///< false: rejects steps with Step::keeps_hidden
};

/// Identifies an asynchronous copy of results to the host: a fetch function returns it, a wait function accepts it.
enum class Ticket : uint64_t {};

class Stage {
 public:
  virtual ~Stage() = default;

  [[nodiscard]] virtual const StageInfo& info() const = 0;

  /// Starts a step. Returns true if the machine replayed a recorded step of the same shape; the caller then issues no
  /// operations and does not call end(). Throws std::bad_alloc if the cache blocks don't fit.
  [[nodiscard]] virtual bool begin(const Step& step) = 0;
  /// Adds an operation to the step. Throws core::Error if the machine does not support the operation.
  virtual void issue(const Operation& operation) = 0;
  /// Ends the step, after its last operation.
  virtual void end() {}

  // Memory that is filled after loading: KV cache and adapters.
  [[nodiscard]] virtual CacheFit cache_fit() const = 0;
  /// Reserves the KV cache. Called once, before the first step; n_blocks is at most cache_fit().n_blocks.
  virtual void reserve_cache(int64_t /*n_blocks*/) {}
  /// Loads the adapter's matrices for this stage's layers. StepRow::adapter refers to the adapter by `number`, which
  /// must be >= 0. The default implementation is for machines without support for adapters and throws core::Error.
  virtual void load_adapter(int32_t number, const core::Adapter& adapter);
  /// Unloads the adapter `number` once the steps already begun have ended. Does nothing if it is not loaded.
  virtual void unload_adapter(int32_t /*number*/) {}

  // Copies of activations from slots to the host, and back.
  /// Starts copying Slot::Logits to the host.
  virtual Ticket fetch_logits() = 0;
  /// Waits for the logits and returns them: (rows that need logits, vocab_size). The caller may overwrite them until
  /// the next begin(). Tickets must be waited for in order, but may be skipped.
  virtual std::span<float> wait(Ticket ticket) = 0;
  /// Starts copying the drawn tokens to the host, if the stage draws.
  virtual Ticket fetch_tokens() { return {}; }
  /// Waits for the drawn tokens, but not for later steps, and returns them: (draws), each a token, kNotFinite (a logit
  /// is not finite) or kNothingLeft (no token may be drawn). Valid until two more steps have begun. The results of a
  /// row that uses a failed draw are undefined.
  virtual std::span<const int32_t> wait_tokens(Ticket /*ticket*/) { return {}; }
  /// read() copies the first values.size() / width rows of a slot to `values`, write() copies them from `values`. Both
  /// wait until the copy is done. Used by observers, and between two stages.
  virtual void read(Slot slot, std::span<float> values) = 0;
  virtual void write(Slot slot, std::span<const float> values) = 0;

  [[nodiscard]] LayerRange layers() const { return info().layers; }
  [[nodiscard]] const StageWeights& weights() const { return info().weights; }
  [[nodiscard]] size_t width(Slot slot) const { return info().widths[static_cast<size_t>(slot)]; }
};

class Machine {
 public:
  virtual ~Machine() = default;
  /// Returns a description for display, such as "2 threads, avx512vnni".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Loads a shard's weights, with the embedding if it has the first layer, and the output if it has the last one.
  /// `model` must outlive the stage. Throws core::Error if the machine does not support a tensor's type, the model's
  /// shape, or a shard that is one of several.
  [[nodiscard]] virtual std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                                    CacheType cache_type) = 0;
};

}  // namespace folio::infer
