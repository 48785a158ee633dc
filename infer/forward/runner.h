// A model on its machines, with its KV cache: takes rows (token, sequence, position) of any sequences, runs them in one
// forward pass, and returns logits, and the tokens drawn from them. A prompt, a chunk of one, a
// decode step and sixteen users at once are all this call. A row's result is a function of its own sequence alone: see
// reference/kernels.h.
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
  int32_t token;  ///< or drawn_token(), where the step before feeds(): the order is that of its rows with a sampler
  SequenceId sequence;  ///< which has an adapter, or none
  int64_t position;     ///< the next of its sequence: rows of one sequence are in order
  bool wants_logits = true;
  Sampler* sampler = nullptr;          ///< draws the token that comes after the row; null: none is drawn
  std::span<const int32_t> history{};  ///< the sequence so far, but for a drawn_token()
};

/// A step that was issued: what is on its way to the host.
struct Issued {
  std::optional<Ticket> logits{};
  std::optional<Ticket> tokens{};
  bool drawn_on_host = false;      ///< from the logits
  std::vector<Draw> draws{};       ///< one without a sampler draws nothing
  std::vector<size_t> reported{};  ///< of the rows that need logits, those that the caller gets
};

/// What a step gives, in the order of its rows; until the next one is issued.
struct StepOutput {
  std::span<float> logits;          ///< (rows that want logits, vocab_size), the caller's to overwrite
  std::span<const int32_t> tokens;  ///< (rows with a sampler): a token, kNotFinite or kNothingLeft
};

struct CacheOptions {
  int64_t max_positions = 0;  ///< positions that the cache holds for each sequence; 0: one full context
  int64_t n_sequences = 1;    ///< sequences that the cache has room for
  CacheType type = CacheType::F32;
};

/// Some layers and the machine that runs them.
struct Placement {
  Machine& machine;
  LayerRange layers;
};

class Runner {
 public:
  /// `placements` have all layers, in order, each at least one; model and machines have to outlive the runner. Throws
  /// core::Error if a machine cannot run the model, or if not even one block of the cache fits its memory.
  Runner(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options);
  /// All layers on one machine.
  Runner(const core::StoredModel& model, Machine& machine, const CacheOptions& options = {});
  Runner(core::StoredModel&&, Machine&, const CacheOptions& = {}) = delete;  // the weights are used where they lie
  Runner(core::StoredModel&&, std::span<const Placement>, const CacheOptions& = {}) = delete;

  [[nodiscard]] const core::StoredModel& model() const { return model_; }
  [[nodiscard]] const core::ModelConfig& config() const { return model_.config; }
  [[nodiscard]] BlockManager& cache() { return cache_; }
  [[nodiscard]] const BlockManager& cache() const { return cache_; }
  /// Of all stages together.
  [[nodiscard]] const LoadReport& load_report() const { return load_report_; }
  [[nodiscard]] uint64_t block_bytes() const { return block_bytes_; }
  /// Rows that a step may have: of all stages the fewest.
  [[nodiscard]] size_t max_rows() const { return max_rows_; }
  /// Steps that may be issued and not collected. They are collected in order.
  [[nodiscard]] size_t steps_in_flight() const {
    return stages_.size() == 1 ? stages_.front()->info().steps_in_flight : 1;
  }

  /// Brings the adapter to all machines, or, if it throws, to none. Its number is one that no other had. What a CPU
  /// adds to matrices in blocks is rounded to 8 bits a number.
  [[nodiscard]] int32_t load_adapter(std::shared_ptr<const core::Adapter> adapter);
  [[nodiscard]] int32_t load_adapter(const core::Adapter& adapter);  // copies it
  /// No sequence has it any more. Throws core::Error if there is none of that number.
  void unload_adapter(int32_t number);
  /// Throws core::Error unless it is loaded, or kNoAdapter.
  void require_adapter(int32_t number) const;

  /// Runs the rows, at most max_rows(), and stores their keys and values. Tokens are drawn where the logits are, if
  /// that machine does so: logits that nobody wants don't come to the host. Throws core::Error, and changes nothing, if
  /// a token, a sequence or a position is not valid or the cache is too full; whatever else is thrown changes nothing
  /// either.
  StepOutput forward(std::span<const Row> rows, const Observer& observer = {});

  /// The first half of forward(): the step is on its way, and the cache holds the rows. Throws as forward() does.
  [[nodiscard]] Issued issue(std::span<const Row> rows, const Observer& observer = {});
  /// The second half: waits. Between may be issued what steps_in_flight() allows, or one step where feeds() was true. A
  /// step that nobody collects is computed all the same.
  [[nodiscard]] StepOutput collect(const Issued& issued);
  /// Whether the next step may take the tokens that the last one draws, and be issued before that one is collected: a
  /// machine with all layers draws them itself, and no logits are on their way.
  [[nodiscard]] bool feeds() const { return n_fed_ > 0; }
  /// Steps that were issued so far.
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
  size_t max_rows_ = 0;
  BlockManager cache_;
  std::set<int32_t> adapters_;
  int32_t n_adapters_ = 0;  ///< so many were loaded

  // The sequences of the rows in hand, in the order in which they come, and how many rows each has.
  struct SequenceRows {
    SequenceId sequence;
    int64_t count;
  };
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> rows_of_;  ///< by sequence: its index in sequences_, or -1
  std::vector<StepRow> rows_;
  std::vector<BlockId> tables_;
  std::vector<int32_t> table_starts_;
  size_t n_logit_rows_ = 0;
  size_t n_fed_ = 0;             ///< draws of the last step that rows of the next may take
  uint64_t n_issued_ = 0;        ///< steps
  std::vector<int32_t> tokens_;  ///< that the host drew
  std::vector<float> scratch_;   ///< (vocab_size)
};

}  // namespace folio::infer
