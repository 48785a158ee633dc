// A model on its machines, with its KV cache. One forward pass runs rows (token, sequence, position) of any sequences
// and returns logits and the tokens drawn from them. Prefill, chunked prefill and batched decoding all use this one
// call. A row's result depends only on its own sequence: see reference/kernels.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/forward/forward.h"

namespace folio::infer {

struct Row {
  int32_t token;        ///< token id; if feeds(), also drawn_token(i) for the previous step's i-th row with a sampler
  SequenceId sequence;  ///< also determines the row's adapter
  int64_t position;     ///< the sequence's next position; rows of a sequence must be in order
  bool wants_logits = true;
  Sampler* sampler = nullptr;          ///< draws the token that follows this row; null: no draw
  std::span<const int32_t> history{};  ///< the sequence's tokens that the host has read so far; read by the sampler
  bool keeps_hidden = false;           ///< true: the step outputs the hidden states of all its rows
  std::span<const float> hidden{};     ///< (dim): if this is an MTP module, the main model's hidden state; else empty
};

/// A step that was issued and not yet collected.
struct Issued {
  std::optional<Ticket> logits{};
  std::optional<Ticket> tokens{};
  bool drawn_on_host = false;      ///< the host draws the tokens from the logits
  size_t n_hidden = 0;             ///< rows of StepOutput::hidden
  std::vector<Draw> draws{};       ///< tokens to draw; the host skips entries whose `sampler` was set to null
  std::vector<size_t> reported{};  ///< rows whose logits the caller requested, as indices among the rows with logits
};

/// Results of a step in row order, valid until the next step is issued.
struct StepOutput {
  std::span<float> logits;          ///< (rows with wants_logits, vocab_size); the caller may overwrite them
  std::span<const int32_t> tokens;  ///< (rows with a sampler): token, or kNotFinite or kNothingLeft if there is none
  std::span<const float> hidden{};  ///< (rows, dim), after the final norm; empty if no row keeps_hidden or if observed
};

struct CacheOptions {
  int64_t max_positions = 0;  ///< capacity per sequence in positions; 0: one full context
  int64_t n_sequences = 1;    ///< number of sequences of max_positions that the cache can hold
  CacheType type = CacheType::F32;
  double share = 1.0;  ///< maximum share of the memory that is free; less if another model is loaded later
};

/// A range of layers and the machine that runs it.
struct Placement {
  Machine& machine;
  LayerRange layers;
};

class Runner {
 public:
  /// Loads the model. `placements` must cover all layers in order, at least one layer each. Model and machines must
  /// outlive the runner. Throws core::Error if a machine cannot run the model or has no memory for one cache block.
  Runner(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options);
  /// Loads all layers on one machine.
  Runner(const core::StoredModel& model, Machine& machine, const CacheOptions& options = {});
  Runner(core::StoredModel&&, Machine&, const CacheOptions& = {}) = delete;  // the model must outlive this object
  Runner(core::StoredModel&&, std::span<const Placement>, const CacheOptions& = {}) = delete;

  [[nodiscard]] const core::StoredModel& model() const { return model_; }
  [[nodiscard]] const core::ModelConfig& config() const { return model_.config; }
  [[nodiscard]] BlockManager& cache() { return cache_; }
  [[nodiscard]] const BlockManager& cache() const { return cache_; }
  /// Returns the memory used by the weights and the time spent on repacking them, summed over all stages.
  [[nodiscard]] const LoadReport& load_report() const { return load_report_; }
  [[nodiscard]] uint64_t block_bytes() const { return block_bytes_; }
  /// Returns the maximum number of rows per step, the smallest of all stages.
  [[nodiscard]] size_t max_rows() const { return max_rows_; }
  /// Returns the maximum number of steps that may be issued and not yet collected. Steps are collected in order.
  [[nodiscard]] size_t steps_in_flight() const {
    return stages_.size() == 1 ? stages_.front()->info().steps_in_flight : 1;
  }

  /// Returns true if steps can be observed and logits_of() is available; false if processes form a pipeline of layers.
  [[nodiscard]] bool writable() const { return stages_.back()->info().writable; }
  /// Returns true if rows may request hidden states (Row::keeps_hidden); false if several processes run the model.
  [[nodiscard]] bool keeps_hidden() const { return stages_.back()->info().keeps_hidden; }

  /// Loads an adapter on all machines, or on none if it throws. Returns the adapter's id; ids are not reused. A CPU
  /// rounds the adapter's matrices to 8 bits where the model's are quantized.
  [[nodiscard]] int32_t load_adapter(const core::Adapter& adapter);
  /// Unloads an adapter that no sequence uses. Throws core::Error if it is not loaded.
  void unload_adapter(int32_t number);
  /// Throws core::Error unless `number` is kNoAdapter or the id of a loaded adapter.
  void require_adapter(int32_t number) const;

  /// Runs `rows`, at most max_rows() of them, and stores their keys and values. Returns all logits or, if the machine
  /// draws tokens, only those that were requested. Throws core::Error if a token, sequence or position is invalid or
  /// the cache is full; the cache is then as before the call.
  StepOutput forward(std::span<const Row> rows, const Observer& observer = {});

  /// Computes the logits (n, vocab_size) of rows of the residual stream (n, dim): applies the final norm, the output
  /// projection and, if `finished`, the configuration's scale and cap. Caches nothing. Throws core::Error if n is 0 or
  /// more than max_rows(). No step may be in flight.
  [[nodiscard]] std::vector<float> logits_of(std::span<const float> residual, bool finished = true);

  /// First half of forward(): issues the step, which caches the keys and values of its rows. Throws core::Error if a
  /// row is invalid or the cache is full.
  [[nodiscard]] Issued issue(std::span<const Row> rows, const Observer& observer = {});
  /// Second half of forward(): waits for the step's results. Before this call, more steps may be issued, so that
  /// up to steps_in_flight() are in flight, or two if feeds() returned true. A step that is never collected still runs.
  [[nodiscard]] StepOutput collect(const Issued& issued);
  /// Returns true if the next step can be issued before the last one is collected, and can use drawn_token() for the
  /// tokens that the last step draws. This requires a single machine that draws tokens, and that the last step had no
  /// observer and its rows requested neither logits nor hidden states.
  [[nodiscard]] bool feeds() const { return n_fed_ > 0; }
  /// Returns the number of steps issued so far.
  [[nodiscard]] uint64_t n_issued() const { return n_issued_; }

 private:
  [[nodiscard]] Issued start(std::span<const Row> rows, const Observer& observer);
  void check(std::span<const Row> rows);
  [[nodiscard]] Issued build_step(std::span<const Row> rows);
  [[nodiscard]] std::span<const int32_t> draw_on_host(const Issued& issued, std::span<float> logits);

  const core::StoredModel& model_;
  std::vector<std::unique_ptr<Stage>> stages_;
  LoadReport load_report_;
  uint64_t block_bytes_ = 0;
  size_t max_rows_ = SIZE_MAX;
  BlockManager cache_;
  std::set<int32_t> adapters_;
  int32_t n_adapters_ = 0;  ///< id of the next adapter

  // A sequence of the step being issued, and the number of its rows. sequences_ is in order of appearance.
  struct SequenceRows {
    SequenceId sequence;
    int64_t count;
  };
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> rows_of_;  ///< by sequence id: the sequence's index in sequences_, or -1
  std::vector<StepRow> rows_;
  std::vector<BlockId> tables_;
  std::vector<int32_t> table_starts_;
  std::vector<float> residual_;  ///< (rows, dim): Row::hidden of the step's rows, if the model is an MTP module
  std::vector<float> hidden_;    ///< (rows, dim): StepOutput::hidden
  size_t n_logit_rows_ = 0;
  size_t n_fed_ = 0;             ///< number of the last step's draws that the next step may use as drawn_token()
  uint64_t n_issued_ = 0;        ///< steps issued so far
  std::vector<int32_t> tokens_;  ///< tokens drawn on the host
  std::vector<float> scratch_;   ///< (vocab_size): a row's logits, for a sampler to overwrite
};

}  // namespace folio::infer
