// Runs requests with continuous batching: each step computes rows of the running sequences and draws their tokens. Use:
//   engine.add(request);  while (engine.step()) …;  engine.take(id)
// scheduler.h selects each step's rows. A request's result does not depend on other requests, on prefix cache hits or
// on preemption: see forward/runner.h.
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
#include "infer/engine/goodput.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/request.h"
#include "infer/engine/scheduler.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// Counters since the engine was created, and its current state.
struct EngineStatistics {
  uint64_t steps = 0;
  uint64_t rows = 0;
  uint64_t cached_tokens = 0;  ///< tokens found in the KV cache when sequences started
  uint64_t tokens = 0;         ///< tokens generated
  uint64_t preemptions = 0;
  size_t running = 0;
  size_t waiting = 0;
  size_t paused = 0;  ///< sequences paused until their callers read more output; see Request::backlog
  int64_t blocks_in_use = 0;
  int64_t n_blocks = 0;
  double step_seconds = 0;   ///< total time of all steps
  double plan_seconds = 0;   ///< part of step_seconds: time spent selecting and assembling rows
  double fixed_seconds = 0;  ///< intercept of the line fitted to the times of steps without prompt rows; initially 0
  double row_seconds = 0;    ///< slope of the same fitted line: step time per row; initially 0
  double pass_seconds = 0;   ///< time of one drafter pass, which drafts one token for each sequence
};

/// The number of rows of each sequence in a step, and the sequences that were started or preempted for the step.
struct StepReport {
  struct Share {
    SequenceKey sequence;
    size_t n_rows;
  };
  struct Started {
    SequenceKey sequence;
    int64_t n_cached;  ///< tokens found in the KV cache
  };
  std::vector<Share> shares{};
  std::vector<Started> started{};
  std::vector<SequenceKey> preempted{};
};

/// The state of a sequence that has not ended.
struct SequenceView {
  SequenceKey id;
  size_t n_prompt;
  size_t n_tokens;                  ///< number of tokens, including the prompt
  std::span<const BlockId> blocks;  ///< KV blocks; empty while the sequence waits; valid until the next step
};

class Engine {
 public:
  /// Loads the model. `model` and the machines must outlive the engine. limits.max_rows is reduced to the machines'
  /// maximum if it is larger. Throws core::Error if a machine cannot run the model or lacks memory for one cache block.
  Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options = {},
         const SchedulerLimits& limits = {});
  Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options = {},
         const SchedulerLimits& limits = {});
  Engine(core::StoredModel&&, Machine&, const CacheOptions& = {}) = delete;  // the model must outlive this object
  Engine(core::StoredModel&&, std::span<const Placement>, const CacheOptions& = {}) = delete;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const core::StoredModel& model() const { return runner_.model(); }
  [[nodiscard]] const core::ModelConfig& config() const { return runner_.config(); }
  [[nodiscard]] BlockManager& cache() { return runner_.cache(); }
  [[nodiscard]] Runner& runner() { return runner_; }

  /// Sets the source of draft tokens; the default is prompt lookup. `drafter` must outlive the engine. Throws
  /// core::Error if the engine already has requests, or if the drafter reads hidden states and several steps are in
  /// flight.
  void draft_with(Drafter& drafter);
  /// Returns the object that chooses the number of draft tokens per step.
  [[nodiscard]] Goodput& goodput() { return goodput_; }

  /// Loads an adapter and returns its id, the value for GenerateOptions::adapter. Throws core::Error if a machine does
  /// not support adapters.
  [[nodiscard]] int32_t load_adapter(const core::Adapter& adapter) { return runner_.load_adapter(adapter); }
  /// Unloads an adapter. Throws core::Error, and changes nothing, if a request uses the adapter or it is not loaded.
  void unload_adapter(int32_t number);

  /// Adds a request and returns its id. Throws core::Error, and adds nothing, if the prompt is empty or longer than the
  /// context, an option is out of range, the adapter is not loaded, the tokenizer's vocabulary differs from the
  /// model's, or the cache can never hold the request. `id` must come from new_id() and exceed those of all earlier
  /// requests; by default the engine assigns one.
  RequestId add(Request request, std::optional<RequestId> id = {});
  /// Reserves an id for a request that is added later. Thread-safe.
  [[nodiscard]] RequestId new_id() { return next_id_++; }

  /// Runs one step: selects rows, runs the forward pass, samples tokens and calls the requests' callbacks. Returns
  /// false if there are no requests or all are paused. After an exception, including a callback's, every request can
  /// continue. With several steps in flight, waits for the oldest.
  bool step();

  /// Returns the request whose result or callback made the last step() or cancel() throw, if any, until it is dropped.
  [[nodiscard]] std::optional<RequestId> failed() const { return failed_; }

  /// Ends a request as Interrupted, with its output so far as the result. Does nothing if it has ended.
  void cancel(RequestId id);

  [[nodiscard]] bool has_ended(RequestId id) const { return ended_.contains(id); }
  /// Returns and removes the results of an ended request, one per choice. Throws core::Error if it has not ended.
  [[nodiscard]] std::vector<GenerateResult> take_all(RequestId id);
  /// Like take_all(), but returns only the first result.
  [[nodiscard]] GenerateResult take(RequestId id) { return std::move(take_all(id).front()); }
  /// Removes a request, ended or not, without calling its callbacks.
  void drop(RequestId id);

  [[nodiscard]] EngineStatistics statistics() const;
  /// Sets a function that receives a report after each step, before ended requests are removed. Empty: no reports.
  void watch(std::function<void(const StepReport&)> on_step) { on_step_ = std::move(on_step); }
  /// Returns the running sequences, then the waiting ones, each in order of arrival, then the paused ones.
  [[nodiscard]] std::vector<SequenceView> sequences() const;

 private:
  struct PlannedRows {
    Sequence* sequence;
    size_t n_rows;
    size_t row = 0;   ///< index of the sequence's first row in the step
    size_t draw = 0;  ///< index of the sequence's first draw among the step's draws
    size_t n_draws = 0;
    size_t logit_row = 0;  ///< index of the sequence's first row among the step's rows with logits
    size_t n_logit_rows = 0;
  };
  struct InFlightStep {
    Issued issued;
    std::vector<PlannedRows> planned;
    size_t n_rows = 0;  ///< number of rows; 0 if the step has prompt rows, since it is then not timed
    StepReport report{};
  };

  [[nodiscard]] ActiveRequest& request_of(const Sequence& s) { return active_.at(s.request()); }
  void draft();
  [[nodiscard]] std::vector<PlannedRows> plan();
  [[nodiscard]] std::vector<PlannedRows> plan_ahead();
  bool issue(std::vector<PlannedRows> planned);
  void decide(const StepOutput& output);
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
  Goodput goodput_;
  std::atomic<RequestId> next_id_ = 0;
  std::map<RequestId, ActiveRequest> active_;  ///< requests that have not ended, in order of arrival
  std::map<RequestId, std::vector<GenerateResult>> ended_;
  std::vector<Row> rows_;                     ///< rows of the last plan
  std::deque<InFlightStep> in_flight_steps_;  ///< oldest first; results are collected in this order
  uint64_t n_issued_ = 0;                     ///< Runner::n_issued() after the last step, to detect other callers
  StepReport report_;                         ///< sequences started and preempted for the next step
  std::function<void(const StepReport&)> on_step_{};
  std::optional<RequestId> current_{};  ///< the request whose results are being processed
  std::optional<RequestId> failed_{};
  size_t n_paused_ = 0;       ///< number of paused requests
  double draft_seconds_ = 0;  ///< time of the drafter in the current call of step()
  EngineStatistics done_{};
};

/// Adds requests to an engine, and drops them in the destructor, whether they have ended or not.
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
