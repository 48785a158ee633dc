#include "infer/engine/engine.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"
#include "core/seconds_since.h"

namespace folio::infer {
namespace {

constexpr size_t kLogitsAtOnce = 3'000'000;  // numbers of prompts' rows in a step: 61 rows of a vocabulary of 49,152

SchedulerLimits within(SchedulerLimits limits, const Runner& runner) {
  limits.max_rows = std::min(limits.max_rows, runner.max_rows());
  limits.n_steps = runner.steps_in_flight();
  return limits;
}

BranchId id_of(const Branch& branch) { return {.request = branch.request(), .index = branch.index()}; }

}  // namespace

Engine::Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options,
               const SchedulerLimits& limits)
    : Engine(model, std::array{Placement{machine, {0, model.config.n_layers}}}, options, limits) {}

Engine::Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options,
               const SchedulerLimits& limits)
    : runner_(model, placements, options), scheduler_(runner_.cache(), within(limits, runner_)) {}

void Engine::draft_with(Drafter& drafter) {
  core::require(active_.empty(), "{} requests have drafts from elsewhere", active_.size());
  drafter_ = &drafter;
}

void Engine::unload_adapter(int32_t number) {
  const auto uses = [&](const auto& entry) { return entry.second.request().options.adapter == number; };
  const auto n = std::ranges::count_if(active_, uses);
  core::require(n == 0, "adapter {} is used by {} request{} that ha{} not ended", number, n, n == 1 ? "" : "s",
                n == 1 ? "s" : "ve");
  runner_.unload_adapter(number);
}

RequestId Engine::add(Request request, std::optional<RequestId> id) {
  runner_.require_adapter(request.options.adapter);
  const RequestId own = id ? *id : new_id();
  const auto added = active_.try_emplace(active_.end(), own, own, std::move(request), config(), cache());
  try {
    added->second.start(scheduler_);
  } catch (...) {
    active_.erase(added);
    throw;
  }
  return own;
}

bool Engine::step() {
  const auto start = std::chrono::steady_clock::now();
  failed_.reset();
  retire_done();
  pause_and_resume();
  while (!flights_.empty() && flights_.front().planned.empty()) flights_.pop_front();  // of requests that are gone
  if (!flights_.empty() && runner_.n_issued() != n_issued_) recall();                  // somebody else ran a step
  // What is thrown here is thrown by a step that does not begin: those in flight go on.
  while (flights_.size() < runner_.steps_in_flight() && issue(plan())) continue;
  if (flights_.empty()) {
    core::require(active_.size() == n_paused_, "the KV cache is full: sequences that are kept hold {} of its {} blocks",
                  cache().blocks_in_use(), cache().n_blocks());
    return false;
  }
  try {
    issue(plan_ahead());
    hand_out(flights_.front(), runner_.collect(flights_.front().issued));
    if (on_step_) on_step_(flights_.front().report);
    flights_.pop_front();
  } catch (...) {
    if (in_hand_ != nullptr) failed_ = in_hand_->request();
    in_hand_ = nullptr;
    recall();
    retire_done();
    throw;
  }
  retire_done();
  done_.step_seconds += core::seconds_since(start);
  return true;
}

// What the next plan may try, for all texts together.
void Engine::draft() {
  std::vector<Drafter::Text> texts;
  for (Branch* branch : scheduler_.running()) {
    if (const auto text = branch->to_draft(scheduler_.n_drafts_each())) texts.push_back(*text);
  }
  if (!texts.empty()) drafter_->draft(texts);
}

std::vector<Engine::PlannedRows> Engine::plan() {
  draft();
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  size_t n_draws = 0;
  size_t n_logit_rows = 0;
  size_t most_reported =
      std::clamp(kLogitsAtOnce / static_cast<size_t>(config().vocab_size), size_t{1}, runner_.max_rows());
  std::vector<PlannedRows> planned;
  const auto& trace = scheduler_.plan([&](Branch& branch, size_t most) {
    const size_t n = branch.append_rows(rows_, most, most_reported);
    if (n == 0) return n;
    const size_t draws = rows_.back().sampler != nullptr ? branch.n_draws() : 0;
    planned.push_back({.branch = &branch, .n_rows = n, .n_draws = draws, .draw = n_draws, .logit_row = n_logit_rows});
    n_draws += draws;
    const auto own = std::span(rows_).last(n);
    n_logit_rows += static_cast<size_t>(std::ranges::count_if(own, &Row::wants_logits));
    return n;
  });
  for (const Branch* branch : trace.started) done_.cached_tokens += static_cast<uint64_t>(branch->n_cached());
  done_.preemptions += trace.preempted.size();
  for (Branch* branch : trace.preempted) {
    leave_flights(*branch);
    branch->was_preempted();
  }
  for (const PlannedRows& rows : planned) rows.branch->started();
  if (on_step_) {
    for (const Branch* b : trace.started) report_.started.push_back({.branch = id_of(*b), .n_cached = b->n_cached()});
    for (const Branch* b : trace.preempted) report_.preempted.push_back(id_of(*b));
  }
  done_.plan_seconds += core::seconds_since(start);
  return planned;
}

// A row for each token that the step in flight draws. None if a branch has others: it would wait for a step more.
std::vector<Engine::PlannedRows> Engine::plan_ahead() {
  if (!runner_.feeds()) return {};
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  for (const Branch* branch : scheduler_.running()) {
    if (branch->needs_next_token()) return {};
  }
  std::vector<PlannedRows> planned;
  std::vector<Branch*> branches;
  for (const PlannedRows& rows : flights_.back().planned) {
    if (rows.branch->ends_next()) continue;
    planned.push_back({.branch = rows.branch, .n_rows = 1, .n_draws = 1, .draw = rows_.size()});
    branches.push_back(rows.branch);
    rows_.push_back(rows.branch->row_ahead(rows.draw));
  }
  if (!scheduler_.can_go_on(branches)) planned.clear();
  done_.plan_seconds += core::seconds_since(start);
  return planned;
}

// Whether there was something to issue.
bool Engine::issue(std::vector<PlannedRows> planned) {
  if (planned.empty()) return false;
  Flight flight{.issued = runner_.issue(rows_, planned.front().branch->asked().observer),
                .planned = std::move(planned)};
  n_issued_ = runner_.n_issued();
  for (const PlannedRows& rows : flight.planned) rows.branch->issued(rows.n_rows);
  if (on_step_) {
    flight.report = std::exchange(report_, {});
    for (const PlannedRows& rows : flight.planned) {
      flight.report.shares.push_back({.branch = id_of(*rows.branch), .n_rows = rows.n_rows});
    }
  }
  ++done_.steps;
  done_.rows += rows_.size();
  flights_.push_back(std::move(flight));
  return true;
}

void Engine::hand_out(const Flight& flight, const StepOutput& output) {
  const auto vocab_size = static_cast<size_t>(config().vocab_size);
  for (const PlannedRows& rows : flight.planned) {
    in_hand_ = rows.branch;
    const size_t n_before = rows.branch->n_generated();
    static_cast<void>(rows.branch->take(
        {.logits = output.logits.subspan(rows.logit_row * vocab_size), .tokens = output.tokens.subspan(rows.draw)},
        rows.n_rows));
    done_.tokens += rows.branch->has_candidates() ? 1 : rows.branch->n_generated() - n_before;
    rows.branch->remember();
  }
  for (const PlannedRows& rows : flight.planned) {
    if (!rows.branch->has_candidates()) continue;
    in_hand_ = rows.branch;
    active_.at(rows.branch->request()).follow_beams(scheduler_);
  }
  in_hand_ = nullptr;
}

// Nobody waits for what is in flight: each branch computes its rows again, from the first that it has not taken.
void Engine::recall() {
  for (auto& [id, request] : active_) {
    for (Branch& branch : request.branches()) branch.recall();
  }
  flights_.clear();
}

void Engine::retire_done() {
  for (auto a = active_.begin(); a != active_.end();) {
    const auto next = std::next(a);
    if (a->second.done()) {
      ended_.emplace(a->first, a->second.results());
      forget(a);
    } else {
      for (Branch& branch : a->second.branches()) {
        if (branch.done()) forget(branch);
      }
    }
    a = next;
  }
}

// What a paused request has computed stays in the cache for a while. It goes on with the same bits, as after a
// preemption, and before all that came later.
void Engine::pause_and_resume() {
  n_paused_ = 0;
  for (auto& [id, request] : active_) {
    const Backlog* backlog = request.request().backlog.get();
    if (backlog == nullptr) continue;
    const bool pauses = request.paused() ? !backlog->has_drained() : backlog->full();
    if (pauses) ++n_paused_;
    if (pauses == request.paused()) continue;
    request.set_paused(pauses);
    for (Branch& branch : request.branches()) {
      if (branch.done()) continue;
      if (pauses) {
        if (on_step_ && branch.runs()) report_.preempted.push_back(id_of(branch));
        forget(branch);
        branch.was_preempted();
      } else {
        scheduler_.add(branch);
      }
    }
  }
}

// A row of it that is in flight is computed for nobody. Its blocks may be taken at once: steps are done in order.
void Engine::forget(Branch& branch) {
  branch.recall();
  leave_flights(branch);
  branch.remember_tail();
  scheduler_.remove(branch);
}

// Nothing is drawn for it: its sampler may go.
void Engine::leave_flights(const Branch& branch) {
  for (Flight& flight : flights_) {
    std::erase_if(flight.planned, [&](const PlannedRows& rows) {
      if (rows.branch != &branch) return false;
      for (Draw& draw : std::span(flight.issued.draws).subspan(rows.draw, rows.n_draws)) draw.sampler = nullptr;
      return true;
    });
  }
}

void Engine::forget(std::map<RequestId, ActiveRequest>::iterator active) {
  for (Branch& branch : active->second.branches()) forget(branch);
  active_.erase(active);
}

void Engine::cancel(RequestId id) {
  const auto active = active_.find(id);
  if (active != active_.end()) active->second.finish(FinishReason::Interrupted);
  retire_done();
}

std::vector<GenerateResult> Engine::take_all(RequestId id) {
  const auto found = ended_.find(id);
  core::require(found != ended_.end(), "there is no request {} that has ended", id);
  std::vector<GenerateResult> results = std::move(found->second);
  ended_.erase(found);
  return results;
}

EngineStatistics Engine::statistics() const {
  EngineStatistics all = done_;
  all.running = scheduler_.running().size();
  all.waiting = scheduler_.waiting().size();
  for (const auto& [id, request] : active_) {
    if (!request.paused()) continue;
    all.paused += static_cast<size_t>(std::ranges::count_if(request.branches(), [](auto& b) { return !b.done(); }));
  }
  all.blocks_in_use = runner_.cache().blocks_in_use();
  all.n_blocks = runner_.cache().n_blocks();
  return all;
}

std::vector<BranchView> Engine::branches() const {
  std::vector<BranchView> views;
  const auto see = [&](const auto& branches) {
    for (const Branch* b : branches) {
      const size_t n_prompt = b->asked().prompt.size();
      views.push_back({.id = id_of(*b),
                       .n_prompt = n_prompt,
                       .n_tokens = n_prompt + b->n_generated(),
                       .blocks = b->runs() ? runner_.cache().table(b->sequence()) : std::span<const BlockId>{}});
    }
  };
  see(scheduler_.running());
  see(scheduler_.waiting());
  for (const auto& [id, request] : active_) {
    if (!request.paused()) continue;
    for (const Branch& branch : request.branches()) {
      const Branch* const one = &branch;
      if (!branch.done()) see(std::span(&one, 1));
    }
  }
  return views;
}

void Engine::drop(RequestId id) {
  const auto active = active_.find(id);
  if (active != active_.end()) forget(active);
  ended_.erase(id);
}

}  // namespace folio::infer
