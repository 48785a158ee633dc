// The loop that every caller shares: requests go in, each step takes rows of those that run, results come out:
//   engine.add(request);  while (engine.step()) …;  engine.take(id)
// scheduler.h says whose rows a step takes. A request's result does not depend on the others, nor on what the cache
// held of its prompt, nor on whether it was preempted: see forward/runner.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "infer/engine/active_request.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/request.h"
#include "infer/engine/scheduler.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// What an engine has done, and does.
struct EngineStatistics {
  uint64_t steps = 0;
  uint64_t rows = 0;           ///< that were computed
  uint64_t cached_tokens = 0;  ///< of prompts, that did not have to be
  uint64_t tokens = 0;         ///< that were generated
  uint64_t preemptions = 0;
  size_t running = 0;
  size_t waiting = 0;
  size_t paused = 0;  ///< until their callers have read more; see Request::backlog
  int64_t blocks_in_use = 0;
  int64_t n_blocks = 0;
  double step_seconds = 0;  ///< of all steps
  double plan_seconds = 0;  ///< of these, to choose and put together their rows: the scheduler's own work
};

/// What a step did: its rows, and what its plan decided.
struct StepReport {
  struct Share {
    SequenceKey sequence;
    size_t n_rows;
  };
  struct Started {
    SequenceKey sequence;
    int64_t n_cached;  ///< tokens that need not be computed
  };
  std::vector<Share> shares{};
  std::vector<Started> started{};
  std::vector<SequenceKey> preempted{};
};

/// A sequence that has not ended.
struct SequenceView {
  SequenceKey id;
  size_t n_prompt;
  size_t n_tokens;                  ///< with the prompt's
  std::span<const BlockId> blocks;  ///< that it holds; none while it waits. Valid until the next step
};

class Engine {
 public:
  /// `model` and the machines have to outlive the engine. A step has no more rows than the machines allow, whatever
  /// `limits` say. Throws as Runner's constructor does.
  Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options = {},
         const SchedulerLimits& limits = {});
  Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options = {},
         const SchedulerLimits& limits = {});
  Engine(core::StoredModel&&, Machine&, const CacheOptions& = {}) = delete;  // the weights are used where they lie
  Engine(core::StoredModel&&, std::span<const Placement>, const CacheOptions& = {}) = delete;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const core::StoredModel& model() const { return runner_.model(); }
  [[nodiscard]] const core::ModelConfig& config() const { return runner_.config(); }
  [[nodiscard]] BlockManager& cache() { return runner_.cache(); }
  [[nodiscard]] Runner& runner() { return runner_; }

  /// Where the drafts of requests that speculate come from, if not from the text itself. `drafter` has to outlive the
  /// engine, which has no request yet.
  void draft_with(Drafter& drafter);

  /// For requests whose options.adapter is the number that is returned.
  [[nodiscard]] int32_t load_adapter(const core::Adapter& adapter) { return runner_.load_adapter(adapter); }
  [[nodiscard]] int32_t load_adapter(std::shared_ptr<const core::Adapter> adapter) {
    return runner_.load_adapter(std::move(adapter));
  }
  /// Throws core::Error, and changes nothing, while requests use it, or if there is none of that number.
  void unload_adapter(int32_t number);

  /// Throws core::Error, and adds nothing, if the prompt is empty or longer than the context, if an option is out of
  /// its range, if there is no such adapter, if the tokenizer is of another vocabulary, or if the cache can never hold
  /// the request. `id` is one of new_id(), larger than those of all requests so far; without one the engine takes the
  /// next.
  RequestId add(Request request, std::optional<RequestId> id = {});
  /// For a request that is added later. Any thread may ask.
  [[nodiscard]] RequestId new_id() { return next_id_++; }

  /// Runs one forward pass: plans its rows, unless a step before did so, samples tokens and hands out the requests'
  /// results. Where one machine has all layers and draws itself, the next pass is issued before this one's tokens are
  /// there, as long as each request just goes on: so the machine doesn't wait for the host between them. Where a
  /// machine does several steps at once, so many are under way, each with other texts; the oldest is waited for.
  /// Returns false, and does nothing, if no request is left but paused ones. Whatever is thrown, from a callback too,
  /// every request can go on with the next step.
  bool step();

  /// The request whose result or callback made the last step throw, if it was one's.
  [[nodiscard]] std::optional<RequestId> failed() const { return failed_; }

  /// Ends a request as Interrupted; what it has so far is its result. Nothing happens if it has ended.
  void cancel(RequestId id);

  [[nodiscard]] bool has_ended(RequestId id) const { return ended_.contains(id); }
  /// The results of a request that has ended, one for each choice; the engine forgets them.
  [[nodiscard]] std::vector<GenerateResult> take_all(RequestId id);
  /// The first one.
  [[nodiscard]] GenerateResult take(RequestId id) { return std::move(take_all(id).front()); }
  /// Forgets a request, whether it has ended or not. Its callbacks are not called.
  void drop(RequestId id);

  [[nodiscard]] EngineStatistics statistics() const;
  /// Gets a report of each step from now on, before the requests that it ended are forgotten. May be empty.
  void watch(std::function<void(const StepReport&)> on_step) { on_step_ = std::move(on_step); }
  /// First those that run, then those that wait, each in the order in which they came, then those that are paused.
  [[nodiscard]] std::vector<SequenceView> sequences() const;

 private:
  // Rows of one sequence in a step.
  struct PlannedRows {
    Sequence* sequence;
    size_t n_rows;
    size_t draw = 0;  ///< index of its first draw
    size_t n_draws = 0;
    size_t logit_row = 0;  ///< index of its first row of logits
    size_t n_logit_rows = 0;
  };
  // A step that was issued.
  struct InFlightStep {
    Issued issued;
    std::vector<PlannedRows> planned;
    StepReport report{};  ///< while it is watched
  };

  [[nodiscard]] ActiveRequest& request_of(const Sequence& s) { return active_.at(s.request()); }
  void draft();
  [[nodiscard]] std::vector<PlannedRows> plan();
  [[nodiscard]] std::vector<PlannedRows> plan_ahead();
  bool issue(std::vector<PlannedRows> planned);
  [[nodiscard]] StepOutput collect() { return runner_.collect(in_flight_steps_.front().issued); }
  void decide(const StepOutput& output);
  void deliver();
  void retire();
  void recall();
  void pause_and_resume();
  void release(Sequence& sequence);
  void release(std::map<RequestId, ActiveRequest>::iterator active);
  void cancel_draws(const Sequence& sequence);

  Runner runner_;
  Scheduler scheduler_;
  PromptLookup lookup_;
  Drafter* drafter_ = &lookup_;
  std::atomic<RequestId> next_id_ = 0;
  std::map<RequestId, ActiveRequest> active_;  ///< in the order in which they came
  std::map<RequestId, std::vector<GenerateResult>> ended_;
  std::vector<Row> rows_;                     ///< that were planned
  std::deque<InFlightStep> in_flight_steps_;  ///< in the order in which they were issued, and are collected
  uint64_t n_issued_ = 0;                     ///< steps of the runner, when the engine had issued its last one
  StepReport report_;                         ///< what the last plan decided, while it is watched
  std::function<void(const StepReport&)> on_step_{};
  std::optional<RequestId> current_{};  ///< the request whose tokens are taken
  std::optional<RequestId> failed_{};
  size_t n_paused_ = 0;  ///< requests
  EngineStatistics done_{};
};

/// Requests for the length of a scope: those that have not ended when it is left are dropped.
class ScopedRequests {
 public:
  explicit ScopedRequests(Engine& engine) : engine_(engine) {}
  ~ScopedRequests() {
    for (const RequestId id : ids_) engine_.drop(id);
  }
  ScopedRequests(const ScopedRequests&) = delete;
  ScopedRequests& operator=(const ScopedRequests&) = delete;

  RequestId add(Request request) {
    ids_.push_back(engine_.add(std::move(request)));
    return ids_.back();
  }
  [[nodiscard]] std::span<const RequestId> ids() const { return ids_; }

 private:
  Engine& engine_;
  std::vector<RequestId> ids_;
};

}  // namespace folio::infer
