// A request on its way: a group of sequences that share the blocks of their prompt, and the policies that the request
// uses. Where it samples, each sequence draws its own tokens, and is one choice. Where it has a policy of all
// sequences, such as beam search, that decides which continue once it has the logits of all.
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
#include "infer/engine/sliding.h"

namespace folio::infer {

/// A sequence of a request, and the policies of it alone.
struct Choice : Sequence {
  using Clock = std::chrono::steady_clock;
  using Sequence::Sequence;

  [[nodiscard]] FormMask* form() { return sampling->sampler().form(); }
  [[nodiscard]] GenerateResult result() const;

  std::optional<Sampling> sampling{};  ///< unless no token is wanted
  std::optional<Drafts> drafts{};
  std::optional<FinishReason> reason{};  ///< once it has ended
  size_t n_prompt_cached = 0;            ///< tokens of the prompt that were not computed
  std::optional<Clock::time_point> start{};
  std::optional<Clock::time_point> first_token{};
  Clock::time_point end{};
  // With a policy of all sequences: what it decides from.
  std::vector<float> logits{};   ///< empty until its last row is computed
  std::vector<float> allowed{};  ///< with a form
  int32_t sampled = -1;
  std::optional<double> score{};
};

class ActiveRequest {
 public:
  /// Throws core::Error if the request cannot run on the model.
  ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  [[nodiscard]] const Request& request() const { return request_; }
  /// All of them; of a policy's some may not be in use.
  [[nodiscard]] std::deque<Choice>& choices() { return choices_; }
  [[nodiscard]] const std::deque<Choice>& choices() const { return choices_; }
  /// Hands the sequences to the scheduler that there are from the beginning. Throws as Scheduler::add does.
  void start(Scheduler& scheduler);

  // One sequence's part of a step.
  /// It runs from now on. Its times count from the first call.
  void started(const Sequence& s);
  /// It waits from now on or is paused, and holds no blocks.
  void was_preempted(Sequence& s);
  /// Returns the text that drafts are for, at most `most`; nothing where none are to be tried in the next step.
  [[nodiscard]] std::optional<Drafter::Text> begin_drafts(const Sequence& s, size_t most);
  [[nodiscard]] size_t n_drafts(const Sequence& s) const {
    const auto& drafts = choices_[s.index()].drafts;
    return drafts ? drafts->n() : 0;
  }
  /// Appends rows of tokens that the cache does not hold yet, and drafts, at most `most`. The prompt's rows that are
  /// reported count towards `most_reported`, and rows stop where that is used up. Returns how many rows were appended.
  size_t append_rows(const Sequence& s, std::vector<Row>& rows, size_t most, size_t& most_reported);
  /// Returns the row of the token that a step in flight draws as its draw `draw`.
  [[nodiscard]] Row row_ahead(const Sequence& s, size_t draw);
  /// Its next rows can be planned only when the token of the step in flight is there.
  [[nodiscard]] bool needs_next_token(const Sequence& s) const;
  /// It ends with that token, whatever it is.
  [[nodiscard]] bool ends_next(const Sequence& s) const { return s.history().size() + 1 >= n_most_; }
  /// The first `n_rows` of those in flight were computed, and gave `output`. Returns how many tokens it has more. If
  /// this throws before a token is taken, the last row stays in flight.
  size_t take(const Sequence& s, size_t n_rows, const StepOutput& output);

  // All of its sequences.
  /// Removes their rows in flight.
  void recall();
  /// Where it has a policy, and all sequences have their next logits: that decides, and they continue.
  void decide(Scheduler& scheduler);
  /// Hands out what has ended by the policy, once.
  void deliver();
  /// They are in no scheduler, and hold no blocks. See Request::backlog.
  void set_paused(bool paused) { paused_ = paused; }
  [[nodiscard]] bool paused() const { return paused_; }
  void finish(FinishReason reason);
  /// All have ended.
  [[nodiscard]] bool done() const;
  /// Of each choice; of a policy's the best first.
  [[nodiscard]] std::vector<GenerateResult> results() const;

 private:
  [[nodiscard]] bool wants_logits() const { return request_.wants_token_logits || policy_; }
  void take_drawn(Choice& c, int32_t drawn, std::span<const float> logits);
  void take_candidates(Choice& c, const StepOutput& output);
  void make_room(Choice& c);
  void end(Choice& c, FinishReason reason, std::string text = {});
  [[nodiscard]] bool ends_with(const Continuation& last) const;
  void complete(Choice& c, const Continuation& last);
  void place(std::span<const Continuation> next, Scheduler& scheduler);
  void conclude(std::optional<FinishReason> of_missing);
  void keep_best();

  Request request_;
  size_t vocab_size_;
  size_t n_most_ = 0;  ///< tokens of a history that ends
  std::deque<Choice> choices_;
  std::optional<PromptReport> report_;  ///< of the first sequence
  std::optional<Sliding> sliding_;
  std::unique_ptr<Policy> policy_;
  std::vector<Choice*> continuing_;      ///< with a policy: those in use, in its order
  std::vector<GenerateResult> results_;  ///< and of those that have ended
  bool concluded_ = false;
  bool delivered_ = false;
  bool paused_ = false;
};

}  // namespace folio::infer
