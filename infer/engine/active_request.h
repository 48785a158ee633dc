// A request in progress: its sequences, which share the KV blocks of the prompt, and its policy, if any. With sampling,
// each sequence is one choice and draws its own tokens. A policy, such as beam search, waits until all sequences have
// the logits of their next token, and then decides how the sequences continue.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/drafts.h"
#include "infer/engine/policy.h"
#include "infer/engine/prompt_report.h"
#include "infer/engine/request.h"
#include "infer/engine/sampling.h"
#include "infer/engine/scheduler.h"

namespace folio::infer {

/// A sequence of a request, with its own sampling, drafts and timings.
struct Choice : Sequence {
  using Clock = std::chrono::steady_clock;
  using Sequence::Sequence;

  [[nodiscard]] FormMask* form() { return sampling->sampler().form(); }
  [[nodiscard]] GenerateResult result() const;

  std::optional<Sampling> sampling{};  ///< empty if no token is generated
  std::optional<Drafts> drafts{};
  std::optional<FinishReason> reason{};  ///< set when the choice ends
  size_t n_prompt_cached = 0;            ///< prompt tokens found in the KV cache
  std::optional<Clock::time_point> start{};
  std::optional<Clock::time_point> first_token{};
  Clock::time_point end{};
  // Input for the request's policy, if it has one.
  std::vector<float> logits{};   ///< logits of the next token; empty until the sequence's last row is computed
  std::vector<float> allowed{};  ///< `logits` with -inf for tokens that structured output forbids
  int32_t sampled = -1;
  std::optional<double> score{};
};

class ActiveRequest {
 public:
  /// Creates the request's sequences. `acceptance` is the prior of their draft acceptance rates, and records which of
  /// their drafts were correct; null: the default prior. Throws core::Error if the request cannot run on the model.
  ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache,
                Acceptance* acceptance);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  [[nodiscard]] const Request& request() const { return request_; }
  /// Returns all sequences of the request. With a policy, some may be unused.
  [[nodiscard]] std::deque<Choice>& choices() { return choices_; }
  [[nodiscard]] const std::deque<Choice>& choices() const { return choices_; }
  /// Adds the initial sequences to the scheduler. Throws core::Error if those that must run together exceed
  /// max_sequences or can never fit in the cache.
  void start(Scheduler& scheduler);

  // Functions for one sequence of the request.
  /// Records that the sequence runs. GenerateResult::prefill_seconds counts from the first call.
  void started(const Sequence& s);
  /// Records that the sequence was preempted or paused and holds no blocks.
  void was_preempted(Sequence& s);
  /// Returns the sequence's input for Goodput::choose(): its acceptance rates and maximum number of drafts, at most
  /// `most`. Returns nullopt if the sequence can have no drafts in the next step.
  [[nodiscard]] std::optional<Goodput::Candidate> candidate(const Sequence& s, size_t most);
  /// Starts the next step's drafts with at most `most` tokens that structured output forces. If these are fewer than
  /// `n_wanted`, returns the input for a drafter to add the others, else nullopt. Call only if candidate() has a value.
  [[nodiscard]] std::optional<Drafter::Input> begin_drafts(const Sequence& s, size_t most, size_t n_wanted);
  [[nodiscard]] size_t n_drafts(const Sequence& s) const {
    const auto& drafts = choices_[s.index()].drafts;
    return drafts ? drafts->n() : 0;
  }
  /// Returns true if a drafter that reads hidden states needs those of the sequence's rows.
  [[nodiscard]] bool needs_hidden(const Sequence& s) const {
    const auto& drafts = choices_[s.index()].drafts;
    return request_.options.speculate > 0 && drafts && !drafts->rest();
  }
  /// Returns the input for Drafter::observe() after take(): `hidden` (rows, dim) has the hidden states of the rows from
  /// history index `first` on. Returns nullopt if the sequence gets no more drafts or must be computed again.
  [[nodiscard]] std::optional<Drafter::Computed> computed(const Sequence& s, size_t first,
                                                          std::span<const float> hidden, size_t dim);
  /// Appends at most `most` rows: tokens that are not cached yet, then drafts. Each prompt row whose logits are
  /// reported decrements `most_reported`; at 0, appending stops before such a row. Returns the number of rows appended.
  size_t append_rows(const Sequence& s, std::vector<Row>& rows, size_t most, size_t& most_reported);
  /// Returns the observer of the sequence's next rows; empty if it has received them before.
  [[nodiscard]] Observer observer_of(const Sequence& s) const {
    return s.history().size() - s.n_missing() < n_observed_ ? Observer() : request_.observer;
  }
  /// Records that the observer has received the sequence's rows issued so far.
  void observed(const Sequence& s) { n_observed_ = s.history().size() - s.n_missing(); }
  /// Returns a row for a token that is not known yet: the result of draw number `draw` of the step in flight.
  [[nodiscard]] Row row_ahead(const Sequence& s, size_t draw);
  /// Returns true if the sequence's next rows depend on the token that the step in flight draws, or are observed.
  [[nodiscard]] bool needs_next_token(const Sequence& s) const;
  /// Returns true if the sequence ends with its next token, whichever that is.
  [[nodiscard]] bool ends_next(const Sequence& s) const { return s.history().size() + 1 >= n_most_; }
  /// Processes the `output` of the sequence's first `n_rows` rows in flight. Returns the number of new tokens. If the
  /// drawn token is invalid, throws core::Error, and the last row stays in flight.
  size_t take(const Sequence& s, size_t n_rows, const StepOutput& output);

  // Functions for the whole request.
  /// Discards the rows in flight of all sequences, so that they are computed again.
  void recall();
  /// Runs the policy, if there is one and all sequences have their logits, and continues the sequences. If the request
  /// ends, calls its callbacks with the results.
  void decide(Scheduler& scheduler);
  /// Records whether the request is paused. The sequences of a paused request are not in the scheduler and have no KV
  /// blocks. See Request::backlog.
  void set_paused(bool paused) { paused_ = paused; }
  [[nodiscard]] bool paused() const { return paused_; }
  void finish(FinishReason reason);
  /// Returns true if all sequences have ended.
  [[nodiscard]] bool done() const;
  /// Returns the result of each choice; with a policy, best first.
  [[nodiscard]] std::vector<GenerateResult> results() const;

 private:
  [[nodiscard]] bool wants_logits() const { return request_.wants_token_logits || policy_; }
  void take_drawn(Choice& c, int32_t drawn, std::span<const float> logits);
  void take_candidates(Choice& c, const StepOutput& output);
  [[nodiscard]] size_t n_left(const Sequence& s) const;
  [[nodiscard]] size_t most_drafts(const Choice& c) const;
  void slide(Choice& c);
  [[nodiscard]] std::string close(Choice& c, FinishReason reason);
  void deliver(const Choice& c, const std::string& text);
  void end(Choice& c, FinishReason reason) { deliver(c, close(c, reason)); }
  [[nodiscard]] bool ends_with(const Continuation& last) const;
  void complete(Choice& c, const Continuation& last);
  void place(std::span<const Continuation> next, Scheduler& scheduler);
  void conclude(std::optional<FinishReason> of_missing);
  void keep_best();

  Request request_;
  size_t vocab_size_;
  size_t n_most_ = 0;                                 ///< maximum number of tokens of a sequence, including the prompt
  size_t n_observed_ = 0;                             ///< number of leading history rows that the observer has received
  FinishReason empty_reason_ = FinishReason::Length;  ///< finish reason of choices that generate no token
  std::deque<Choice> choices_;
  std::optional<PromptReport> report_;  ///< reports logits or log-probabilities of the prompt; empty: not requested
  std::unique_ptr<Policy> policy_;
  std::vector<Choice*> continuing_;      ///< with a policy: the sequences that it continues, in the policy's order
  std::vector<GenerateResult> results_;  ///< with a policy: the completed sequences
  bool concluded_ = false;
  bool paused_ = false;
};

}  // namespace folio::infer
