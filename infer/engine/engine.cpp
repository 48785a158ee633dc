#include "infer/engine/engine.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"
#include "core/seconds_since.h"

namespace folio::infer {
namespace {

constexpr size_t kLogitsAtOnce = 3'000'000;  // numbers of prompts' rows in a step: 61 rows of a vocabulary of 49,152

Scheduler::Limits within(Scheduler::Limits limits, size_t max_rows) {
  limits.max_rows = std::min(limits.max_rows, max_rows);
  return limits;
}

}  // namespace

Engine::Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options,
               const Scheduler::Limits& limits)
    : Engine(model, std::array{Placement{machine, {0, model.config.n_layers}}}, options, limits) {}

Engine::Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options,
               const Scheduler::Limits& limits)
    : runner_(model, placements, options), scheduler_(runner_.cache(), within(limits, runner_.max_rows())) {}

void Engine::draft_with(Drafter& drafter) {
  core::require(active_.empty(), "{} requests have drafts from elsewhere", active_.size());
  drafter_ = &drafter;
}

RequestId Engine::add(Request request, std::optional<RequestId> same_prompt) {
  active_.push_back({.id = next_id_, .generation = Generation(std::move(request), config(), cache())});
  try {
    Generation& added = active_.back().generation;
    scheduler_.add(added);
    for (const Active& a : active_) {
      if (a.id == same_prompt && a.generation.request().prompt == added.request().prompt)
        added.share_with(a.generation);
    }
  } catch (...) {
    active_.pop_back();
    throw;
  }
  return next_id_++;
}

bool Engine::step() {
  const auto start = std::chrono::steady_clock::now();
  failed_.reset();
  retire_done();
  try {
    if (!step_.parts.empty() && !runner_.is_last(step_.issued)) recall();  // somebody else ran a step
    if (step_.parts.empty()) step_ = issue(plan());
    if (step_.parts.empty()) {
      core::require(active_.empty(), "the KV cache is full: sequences that are kept hold {} of its {} blocks",
                    cache().blocks_in_use(), cache().n_blocks());
      return false;
    }
    Flight next = issue(plan_ahead());
    hand_out(runner_.collect(step_.issued));
    if (on_step_) on_step_(step_.report);
    step_ = std::move(next);
  } catch (...) {
    if (in_hand_ != nullptr) failed_ = id_of(*in_hand_);
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
  for (Scheduler::Job* job : scheduler_.running()) {
    if (const auto text = static_cast<Generation*>(job)->to_draft(scheduler_.n_ahead_each())) texts.push_back(*text);
  }
  if (!texts.empty()) drafter_->draft(texts);
}

std::vector<Engine::Part> Engine::plan() {
  draft();
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  size_t n_draws = 0;
  size_t most_reported =
      std::clamp(kLogitsAtOnce / static_cast<size_t>(config().vocab_size), size_t{1}, runner_.max_rows());
  std::vector<Part> parts;
  const auto append = [&](Scheduler::Job& job, size_t most) {
    auto& request = static_cast<Generation&>(job);
    const size_t n = request.append_rows(rows_, most, most_reported);
    if (n > 0) {
      parts.push_back({.request = &request, .n_rows = n, .draw = n_draws});
      n_draws += rows_.back().sampler != nullptr ? request.n_draws() : 0;
    }
    return n;
  };
  const Scheduler::Trace& trace = scheduler_.plan(append);
  for (const Scheduler::Job* job : trace.started) done_.cached_tokens += static_cast<uint64_t>(job->n_shared());
  done_.put_back += trace.put_back.size();
  if (!trace.put_back.empty()) {
    for (Scheduler::Job* job : scheduler_.waiting()) static_cast<Generation*>(job)->was_put_back();
  }
  for (const Part& part : parts) part.request->started();
  if (on_step_) {
    for (const auto* job : trace.started) planned_.started.push_back({.id = id_of(*job), .n_known = job->n_shared()});
    for (const auto* job : trace.put_back) planned_.put_back.push_back(id_of(*job));
  }
  done_.plan_seconds += core::seconds_since(start);
  return parts;
}

// A row for each token that the step in flight draws. None if a request has others: it would wait for a step more.
std::vector<Engine::Part> Engine::plan_ahead() {
  if (!runner_.feeds()) return {};
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  for (Scheduler::Job* job : scheduler_.running()) {
    if (static_cast<Generation*>(job)->has_to_wait()) return {};
  }
  std::vector<Part> parts;
  std::vector<Scheduler::Job*> jobs;
  for (const Part& part : step_.parts) {
    if (part.request->ends_next()) continue;
    parts.push_back({.request = part.request, .n_rows = 1, .draw = rows_.size()});
    jobs.push_back(part.request);
    rows_.push_back(part.request->row_ahead(part.draw));
  }
  if (!scheduler_.can_go_on(jobs)) parts.clear();
  done_.plan_seconds += core::seconds_since(start);
  return parts;
}

Engine::Flight Engine::issue(std::vector<Part> parts) {
  if (parts.empty()) return {};
  Flight flight{.issued = runner_.issue(rows_, parts.front().request->request().observer), .parts = std::move(parts)};
  for (const Part& part : flight.parts) part.request->issued(part.n_rows);
  if (on_step_) {
    flight.report = std::exchange(planned_, {});
    for (const Part& part : flight.parts)
      flight.report.parts.push_back({.id = id_of(*part.request), .n_rows = part.n_rows});
  }
  ++done_.steps;
  done_.rows += rows_.size();
  return flight;
}

RequestId Engine::id_of(const Scheduler::Job& job) const {
  const auto is_it = [&](const Active& a) { return &a.generation == &job; };
  return std::find_if(active_.begin(), active_.end(), is_it)->id;
}

void Engine::hand_out(StepOutput output) {
  const std::span<const int32_t> tokens = output.tokens;
  for (const Part& part : step_.parts) {
    in_hand_ = part.request;
    output.tokens = tokens.subspan(part.draw);
    const size_t n_before = part.request->n_generated();
    output = part.request->take(output, part.n_rows);
    done_.tokens += part.request->n_generated() - n_before;
    part.request->remember();
  }
  in_hand_ = nullptr;
}

// Nobody waits for what is in flight: each request computes its rows again, from the first that it has not taken.
void Engine::recall() {
  for (Active& a : active_) a.generation.recall();
  step_ = {};
}

void Engine::retire_done() {
  for (auto a = active_.begin(); a != active_.end();) {
    const auto next = std::next(a);
    if (a->generation.done()) {
      ended_.emplace(a->id, a->generation.result());
      forget(a);
    }
    a = next;
  }
}

// A row of it that is in flight is computed for nobody. Its blocks may be taken at once: steps are done in order.
void Engine::forget(std::list<Active>::iterator active) {
  active->generation.recall();
  std::erase_if(step_.parts, [&](const Part& part) { return part.request == &active->generation; });
  scheduler_.remove(active->generation);
  active_.erase(active);
}

void Engine::cancel(RequestId id) {
  for (Active& a : active_) {
    if (a.id == id) a.generation.finish(FinishReason::Interrupted);
  }
  retire_done();
}

GenerateResult Engine::take(RequestId id) {
  const auto found = ended_.find(id);
  core::require(found != ended_.end(), "there is no request {} that has ended", id);
  GenerateResult result = std::move(found->second);
  ended_.erase(found);
  return result;
}

EngineStatistics Engine::statistics() const {
  EngineStatistics all = done_;
  all.running = scheduler_.running().size();
  all.waiting = scheduler_.waiting().size();
  all.blocks_in_use = runner_.cache().blocks_in_use();
  all.n_blocks = runner_.cache().n_blocks();
  return all;
}

std::vector<RequestView> Engine::requests() const {
  std::vector<RequestView> views;
  const auto view = [&](const Scheduler::Job* job) {
    const auto& g = *static_cast<const Generation*>(job);
    views.push_back({.id = id_of(g),
                     .n_prompt = g.request().prompt.size(),
                     .n_tokens = g.request().prompt.size() + g.n_generated(),
                     .blocks = g.runs() ? runner_.cache().table(g.sequence()) : std::span<const BlockId>{}});
  };
  for (const Scheduler::Job* job : scheduler_.running()) view(job);
  for (const Scheduler::Job* job : scheduler_.waiting()) view(job);
  return views;
}

void Engine::drop(RequestId id) {
  const auto active = std::find_if(active_.begin(), active_.end(), [&](const Active& a) { return a.id == id; });
  if (active != active_.end()) forget(active);
  ended_.erase(id);
}

}  // namespace folio::infer
