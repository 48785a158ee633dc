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

struct BranchId {
  RequestId request;
  size_t index;
};

/// What a step did: its rows, and what its plan decided.
struct StepReport {
  struct Share {
    BranchId branch;
    size_t n_rows;
  };
  struct Started {
    BranchId branch;
    int64_t n_cached;  ///< tokens that need not be computed
  };
  std::vector<Share> shares{};
  std::vector<Started> started{};
  std::vector<BranchId> preempted{};
};

/// A branch of a request that has not ended.
struct BranchView {
  BranchId id;
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
  [[nodiscard]] std::vector<BranchView> branches() const;

 private:
  // Rows of one branch in a step.
  struct PlannedRows {
    Branch* branch;
    size_t n_rows;
    size_t n_draws;
    size_t draw;         ///< index of its first draw, if it has one
    size_t logit_row{};  ///< index of its first row of logits, if it wants some
  };
  // A step that was issued.
  struct Flight {
    Issued issued;
    std::vector<PlannedRows> planned;  ///< the branches of its rows
    StepReport report{};               ///< while somebody watches
  };

  void draft();
  [[nodiscard]] std::vector<PlannedRows> plan();
  [[nodiscard]] std::vector<PlannedRows> plan_ahead();
  bool issue(std::vector<PlannedRows> planned);
  void hand_out(const Flight& flight, const StepOutput& output);
  void leave_flights(const Branch& branch);
  void recall();
  void retire_done();
  void pause_and_resume();
  void forget(Branch& branch);
  void forget(std::map<RequestId, ActiveRequest>::iterator active);

  Runner runner_;
  Scheduler<Branch> scheduler_;
  PromptLookup lookup_;
  Drafter* drafter_ = &lookup_;
  std::atomic<RequestId> next_id_ = 0;
  std::map<RequestId, ActiveRequest> active_;  ///< in the order in which they came
  std::map<RequestId, std::vector<GenerateResult>> ended_;
  std::vector<Row> rows_;       ///< that were planned
  std::deque<Flight> flights_;  ///< in the order in which they were issued, and are collected
  uint64_t n_issued_ = 0;       ///< steps of the runner, when the engine had issued its last one
  StepReport report_;           ///< what the last plan decided, while somebody watches
  std::function<void(const StepReport&)> on_step_{};
  const Branch* in_hand_ = nullptr;  ///< whose results are handed out
  std::optional<RequestId> failed_{};
  size_t n_paused_ = 0;  ///< requests
  EngineStatistics done_{};
};

}  // namespace folio::infer
