// One request on its way: which tokens it has, which rows it needs next, and what comes of their logits.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/request.h"
#include "infer/forward/runner.h"
#include "infer/sampling/stop_filter.h"

namespace folio::infer {

class Generation {
 public:
  /// Throws core::Error if the request cannot run on the model.
  Generation(Request request, const core::ModelConfig& config, BlockManager& cache);

  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] bool done() const { return done_; }
  /// The most positions that its sequence may come to hold.
  [[nodiscard]] int64_t max_positions() const;

  /// It runs from now on, in `sequence`. It may be done at once.
  void start(SequenceId sequence);

  /// Appends rows of tokens that the cache does not hold yet, at most `most`. What the prompt's rows report is taken
  /// off `most_reported`, and no row is appended that would need more. Returns how many were appended.
  size_t append_rows(std::vector<Row>& rows, size_t most, size_t& most_reported);

  /// Its last `n_rows` rows were computed, and the cache holds them. Takes what it wants from the front of `output`,
  /// and returns the rest.
  StepOutput take(const StepOutput& output, size_t n_rows);

  /// After a step that failed: forgets the last rows, which are computed again.
  void undo(size_t n_rows);

  /// Tokens that the cache does not hold yet.
  [[nodiscard]] size_t n_fresh() const;

  void finish(FinishReason reason);
  [[nodiscard]] GenerateResult result() const;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool samples() const { return request_.max_tokens > 0; }
  [[nodiscard]] bool is_last(size_t index) const { return samples() && index + 1 == history_.size(); }
  [[nodiscard]] bool is_reported(size_t index) const;
  [[nodiscard]] bool ends(int32_t token) const;
  [[nodiscard]] size_t n_rows() const;
  void report(std::span<const float> logits, size_t first);
  void go_on(int32_t token);
  [[nodiscard]] std::string check_room();
  [[nodiscard]] std::string end(FinishReason reason);
  void show(const std::string& text);

  Request request_;
  BlockManager& cache_;
  size_t vocab_size_;
  int64_t context_;
  Sampler sampler_;
  StopFilter filter_;
  std::vector<int32_t> history_;  ///< the prompt and all that was generated
  size_t n_prompt_;
  size_t reported_ = 0;   ///< rows of the prompt whose logits were handed out
  size_t forgotten_ = 0;  ///< tokens at the beginning of the history that slid out of the context
  std::string text_;
  bool done_ = false;
  FinishReason reason_ = FinishReason::Length;
  Clock::time_point start_;
  Clock::time_point first_token_;
  Clock::time_point end_;
};

}  // namespace folio::infer
