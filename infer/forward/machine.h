// What the forward pass asks of a machine: a CPU, a GPU, one rank of several. A machine is the device, and may serve
// several models; a Stage is a range of one model's layers on it, with weights, activations and cache blocks.
// Operations may be asynchronous: only read(), wait() and wait_tokens() wait. They name activations by slot, and
// begin() copies what they need of the step's rows. So a machine may record a step and replay it for other tokens,
// positions and tables, or hold an operation back and fuse it with the next.
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
#include "infer/forward/slots.h"
#include "infer/forward/stage_weights.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

/// What norm_heads() takes. Throws core::Error unless the slot is Query or Key.
void require_heads(Slot slot);

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
};

inline constexpr size_t kMaxRows = 256;  ///< rows of a step on a CPU

/// The matrix that a slot is multiplied by, the bias if there is one, and where the sum goes.
struct Projection {
  WeightId weight;
  WeightId bias;
  Slot out;
};

/// A matrix of each expert, and its bias if there is one.
struct ExpertMatrix {
  WeightId weight;
  WeightId bias;
};

/// What chooses a row's experts: a matrix of a row for each and its bias, and what is added to their scores, where that
/// is there.
struct Router {
  WeightId weight;
  WeightId bias;
  WeightId selection_bias;
};

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

/// Throws core::Error, which names the part, if the model has one that Llama, Mistral, Qwen 2 and 3 don't have: `who`
/// runs none of these.
void require_llama_parts(const core::StoredModel& model, const char* who);

/// Throws core::Error if the shard is one of several. `who` has whole matrices alone.
void require_whole(const Shard& shard, const char* who);

/// A copy to the host that is on its way.
enum class Ticket : uint64_t {};

class Stage {
 public:
  virtual ~Stage() = default;

  [[nodiscard]] virtual LayerRange layers() const = 0;
  [[nodiscard]] virtual const StageWeights& weights() const = 0;
  /// Numbers of a row in the slot.
  [[nodiscard]] virtual size_t width(Slot slot) const = 0;
  /// Steps that may be under way: with a step whose logits are waited for, the others that were begun since. They are
  /// done in order, and overlap.
  [[nodiscard]] virtual size_t steps_in_flight() const { return 1; }
  /// Rows that a step may have.
  [[nodiscard]] virtual size_t max_rows() const { return kMaxRows; }
  [[nodiscard]] virtual CacheFit cache_fit() const = 0;
  /// Once, before the first step: the cache will have so many blocks, at most cache_fit()'s.
  virtual void reserve_cache(int64_t /*n_blocks*/) {}
  [[nodiscard]] virtual const LoadReport& load_report() const = 0;

  /// Brings what the adapter adds to the stage's matrices to the machine. Rows name it by `number`, at least 0. Throws
  /// core::Error if the machine runs no adapters, as it does by default.
  virtual void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter);
  /// Rows that were begun are computed with it. Nothing happens if there is none of that number.
  virtual void unload_adapter(int32_t /*number*/) {}

  /// Brings the step's rows, tables and copies to the machine. Throws std::bad_alloc if their blocks don't fit.
  virtual void begin(const Step& step) = 0;
  /// True if the machine had recorded a step of this shape and has issued it anew: nothing up to end() is to be issued.
  [[nodiscard]] virtual bool replay() { return false; }

  /// Residual = the rows' tokens' embeddings, times the configuration's embedding_scale.
  virtual void embed(WeightId table) = 0;
  /// Normed = RMSNorm(Residual) * weight, over each row.
  virtual void norm(WeightId weight) = 0;
  /// Each head of the slot, Query or Key, = RMSNorm(head) * weight. Throws core::Error for another slot.
  virtual void norm_heads(Slot slot, WeightId weight) = 0;
  /// Each projection's out = in · weightᵀ + bias, and for rows with an adapter its part: see reference/kernels.h.
  virtual void project(Slot in, std::span<const Projection> projections) = 0;
  /// Residual += in · weightᵀ + bias, and an adapter's part likewise; with `post_norm` RMSNorm(that sum) * post_norm is
  /// added.
  /// What is added is multiplied by the configuration's residual_scale.
  virtual void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) = 0;
  /// Rotates Query and Key by their rows' positions, as the layer does, and stores Key and Value in the cache.
  virtual void rotate_and_store(int64_t layer) = 0;
  /// Heads = attention of Query over the positions of its sequence up to its own, or those of them in the sliding
  /// window, read from the cache, and each head's sink if there are some.
  virtual void attend(int64_t layer, WeightId sinks) = 0;
  /// gate = silu(gate) * up, or what core::Gate of the family says: Gate and Up, or SharedGate and SharedUp, or
  /// ExpertGate and ExpertUp.
  virtual void activate(Slot gate, Slot up) = 0;

  // Experts. Each throws core::Error if the machine runs none, as it does by default: who loads a model with experts
  // refuses it, so that no step begins.

  /// Chooses each row's experts by the router's scores of Normed, and weighs them: see kernels::route.
  virtual void route(const Router& router);
  /// ExpertGate and ExpertUp = the row of Normed · the matrixᵀ + bias of each expert that the row takes.
  virtual void project_experts(const ExpertMatrix& gate, const ExpertMatrix& up);
  /// Residual += Σ route · (the row's ExpertGate · the matrixᵀ + bias), over the row's experts in the order of their
  /// numbers.
  virtual void combine_experts(const ExpertMatrix& down);
  /// Each row of the slot *= sigmoid(Normed · weight).
  virtual void gate_rows(Slot slot, WeightId weight);

  /// Moves the rows of Residual and Query that need logits, at least one, to the front; the operations that follow take
  /// only these. It comes before the last layer's attend().
  virtual void gather() = 0;
  /// Logits = what the configuration's logit_scale and logit_cap make of them.
  virtual void finish_logits() = 0;
  /// Draws the step's tokens from Logits, which stay as they are: for each draw the token that its Sampler would draw,
  /// but for roundings where probabilities meet.
  virtual void draw() {}
  /// The operations of the step are issued: what was recorded since replay() is whole.
  virtual void end() {}

  /// Asks for Slot::Logits in the host's memory.
  virtual Ticket fetch_logits() = 0;
  /// Waits for them: (rows that need logits, vocab_size), the caller's to overwrite until the next begin(). Tickets
  /// come in order; one that is left out is never asked for again.
  virtual std::span<float> wait(Ticket ticket) = 0;
  /// Whether it draws tokens itself. Otherwise steps come without draws, and the host draws from the logits.
  [[nodiscard]] virtual bool draws() const { return false; }
  /// Asks for what was drawn in the host's memory.
  virtual Ticket fetch_tokens() { return {}; }
  /// Waits for it, but not for a step that was begun since: (draws), each a token, kNotFinite or kNothingLeft. They
  /// stay until the second begin() after that of their step. The row of a drawn_token() that is none has any numbers.
  virtual std::span<const int32_t> wait_tokens(Ticket /*ticket*/) { return {}; }
  /// Copies a slot's rows to the host, or from it, and waits. For observers, and to hand Residual on between stages.
  virtual void read(Slot slot, std::span<float> values) = 0;
  virtual void write(Slot slot, std::span<const float> values) = 0;
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
