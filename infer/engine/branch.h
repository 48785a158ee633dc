// One text of a request on its way: which tokens it has, which rows it needs next, and what comes of their logits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/drafter.h"
#include "infer/engine/request.h"
#include "infer/engine/scheduler.h"
#include "infer/forward/runner.h"
#include "infer/sampling/stop_filter.h"

namespace folio::infer {

class Branch final : public ScheduledBranch {
 public:
  /// The request and the cache have to outlive it. Branch 0 reports what is asked of the prompt's rows. Throws
  /// core::Error if an option is out of its range.
  Branch(RequestId id, size_t index, const Request& request, const core::ModelConfig& config, BlockManager& cache,
         std::optional<FormMask> form = {});
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;

  [[nodiscard]] const Request& asked() const { return request_; }
  /// Of one that samples.
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] size_t n_generated() const { return history().size() - n_prompt_; }

  [[nodiscard]] std::span<const int32_t> tokens() const;
  [[nodiscard]] size_t shareable() const;
  [[nodiscard]] int64_t max_positions() const;
  [[nodiscard]] int32_t adapter() const { return request_.options.adapter; }
  [[nodiscard]] size_t n_drafts() const;
  [[nodiscard]] bool alone() const { return static_cast<bool>(request_.observer); }
  [[nodiscard]] size_t n_together() const { return searches() ? static_cast<size_t>(request_.options.beams.width) : 1; }

  /// It runs from now on. Its times count from the first call.
  void started();
  /// It waits from now on or is paused, holds no blocks and no drafts, and has no rows in flight.
  void was_preempted();

  /// The text that drafts are for, at most `most`; nothing where none are to be tried in the next step. Drafts that
  /// were not taken are forgotten.
  [[nodiscard]] std::optional<Drafter::Text> to_draft(size_t most);

  /// Appends rows of tokens that the cache does not hold yet, at most `most`. What the prompt's rows report is taken
  /// off `most_reported`, and rows stop where that is used up. Rows of drafts may follow. Returns how many rows
  /// were appended.
  size_t append_rows(std::vector<Row>& rows, size_t most, size_t& most_reported);

  /// The row of the token that a step in flight draws as its draw `draw`: it can be issued before the token is there.
  [[nodiscard]] Row row_ahead(size_t draw);
  /// Whether its next rows can be planned only when that token is there: rows of the prompt are left, its sampler
  /// depends on the token, it drafts, or the context slides.
  [[nodiscard]] bool needs_next_token() const;
  /// Whether the text ends with that token, whatever it is.
  [[nodiscard]] bool ends_next() const;

  /// `n_rows` more rows were issued, and have their places in the cache.
  void issued(size_t n_rows) { in_flight_ += n_rows; }
  /// Tokens that are drawn in the step whose rows were appended last.
  [[nodiscard]] size_t n_draws() const { return 1 + n_drafts_; }
  /// The first `n_rows` of those in flight were computed. Takes its share from the front of `output`, and returns
  /// the rest. If this throws before it has taken a token, the last row stays in flight.
  StepOutput take(const StepOutput& output, size_t n_rows);
  /// Removes the rows in flight from the cache. Unless the request has ended, they are issued again.
  void recall();
  /// The rows that were taken can be found by other prompts.
  void remember();
  /// And, of a text that ends, those of its last block, if that is wanted.
  void remember_tail();

  void finish(FinishReason reason);
  [[nodiscard]] GenerateResult result() const;

  // One of several beams: the request says how it goes on.
  /// Once its last row was taken, and until it goes on or is preempted.
  [[nodiscard]] bool has_candidates() const { return has_candidates_; }
  /// How it may go on, most likely first. None if its form allows nothing.
  [[nodiscard]] std::span<const BeamSearch::Candidate> candidates() const { return candidates_; }
  /// Behind the prompt.
  [[nodiscard]] std::span<const int32_t> generated() const { return history().subspan(n_prompt_); }
  /// It is what `other` is, but for the sequence.
  void become(const Branch& other);
  /// It goes on with one of its candidates.
  void follow(const BeamSearch::Candidate& candidate);
  [[nodiscard]] double log_prob() const { return log_prob_; }
  /// The times of result() end now.
  void stop_clock();

 private:
  using Clock = std::chrono::steady_clock;

  /// The prompt and all that was generated.
  [[nodiscard]] std::span<const int32_t> history() const {
    return history_.empty() ? std::span<const int32_t>(request_.prompt) : history_;
  }
  [[nodiscard]] bool goes_on() const { return request_.options.max_tokens > 0; }
  [[nodiscard]] bool searches() const { return goes_on() && request_.options.beams.width > 0; }
  [[nodiscard]] bool reports() const { return index() == 0; }
  [[nodiscard]] bool shows_logits() const { return request_.wants_token_logits || searches(); }
  [[nodiscard]] bool is_last(size_t index) const { return goes_on() && index + 1 == history().size(); }
  [[nodiscard]] bool is_reported(size_t index) const;
  [[nodiscard]] bool ends(int32_t token) const;
  [[nodiscard]] size_t n_rows() const;
  [[nodiscard]] size_t n_fresh() const;
  [[nodiscard]] bool context_ends(size_t n_tokens) const;
  void append_drafts(std::vector<Row>& rows, size_t most);
  void draft_by_form(size_t most);
  void cut_drafts();
  void take_drafts(std::span<const int32_t> drawn);
  void take_token(int32_t drawn, std::span<const float> logits);
  void report(std::span<const float> logits, size_t first);
  void find_candidates(std::span<const float> logits);
  void go_on(int32_t token, std::span<const float> logits);
  [[nodiscard]] std::string check_room();
  [[nodiscard]] std::optional<FinishReason> end_of_form();
  [[nodiscard]] std::string end(FinishReason reason);
  void show(const std::string& text);

  const Request& request_;
  BlockManager& cache_;
  size_t vocab_size_;
  int64_t context_;
  Sampler sampler_;
  StopFilter filter_;
  DraftPace pace_;
  std::unique_ptr<Drafter::Memory> draft_memory_;
  std::vector<int32_t> history_;  ///< see history(). Empty before its first row: choices that wait share the prompt
  size_t n_prompt_;
  size_t reported_ = 0;           ///< rows of the prompt whose logits were handed out
  size_t forgotten_ = 0;          ///< tokens at the beginning of the history that slid out of the context
  size_t n_prompt_cached_ = 0;    ///< tokens of the prompt that were not computed
  size_t n_drafts_ = 0;           ///< the last of the rows in flight are drafts
  size_t n_tried_ = 0;            ///< drafts in all steps
  size_t n_right_ = 0;            ///< drafts that were right
  std::vector<int32_t> drafted_;  ///< the first n_copied_ tokens of the history, then drafts
  size_t n_copied_ = 0;           ///< tokens of the history
  size_t in_flight_ = 0;          ///< rows that the cache holds, and take() has not seen yet
  double log_prob_ = 0.0;         ///< of what is behind the prompt, of a beam
  bool has_candidates_ = false;
  std::vector<BeamSearch::Candidate> candidates_;
  std::vector<float> allowed_logits_;  ///< (vocab_size), of a beam with a form
  Ranking ranking_;
  std::string text_;
  bool done_ = false;
  FinishReason reason_ = FinishReason::Length;
  bool started_ = false;
  Clock::time_point start_;
  Clock::time_point first_token_;
  Clock::time_point end_;
};

}  // namespace folio::infer
