#include "infer/engine/engine.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"
#include "core/seconds_since.h"

namespace folio::infer {
namespace {

constexpr size_t kLogitsAtOnce = 3'000'000;  // maximum prompt logits reported per step, such as 61 rows of 49,152

SchedulerLimits within(SchedulerLimits limits, const Runner& runner) {
  limits.max_rows = std::min(limits.max_rows, runner.max_rows());
  limits.n_steps = runner.steps_in_flight();
  return limits;
}

}  // namespace

Engine::Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options,
               const SchedulerLimits& limits)
    : Engine(model, std::array{Placement{machine, {0, model.config.n_layers}}}, options, limits) {}

Engine::Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options,
               const SchedulerLimits& limits)
    : runner_(model, placements, options), scheduler_(runner_.cache(), within(limits, runner_)) {}

void Engine::draft_with(Drafter& drafter) {
  core::require(active_.empty(), "cannot change the drafter while {} requests are active", active_.size());
  core::require(!drafter.reads_hidden() || runner_.steps_in_flight() == 1,
                "drafts that read hidden states need a machine with one step in flight, not {}; use n-grams",
                runner_.steps_in_flight());
  drafter_ = &drafter;
}

void Engine::unload_adapter(int32_t number) {
  const auto uses = [&](const auto& entry) { return entry.second.request().options.adapter == number; };
  const auto n = std::ranges::count_if(active_, uses);
  core::require(n == 0, "adapter {} is in use by {} request{} that ha{} not ended", number, n, n == 1 ? "" : "s",
                n == 1 ? "s" : "ve");
  runner_.unload_adapter(number);
}

RequestId Engine::add(Request request, std::optional<RequestId> id) {
  runner_.require_adapter(request.options.adapter);
  const RequestId own = id ? *id : new_id();
  const auto added =
      active_.try_emplace(active_.end(), own, own, std::move(request), config(), cache(), &goodput_.acceptance());
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
  draft_seconds_ = 0;
  size_t n_rows = 0;
  retire();
  pause_and_resume();
  while (!in_flight_steps_.empty() && in_flight_steps_.front().planned.empty()) in_flight_steps_.pop_front();
  if (!in_flight_steps_.empty() && runner_.n_issued() != n_issued_) recall();  // another caller used the runner
  // If planning throws, no new step has begun, and the steps in flight continue.
  while (in_flight_steps_.size() < runner_.steps_in_flight() && issue(plan())) continue;
  if (in_flight_steps_.empty()) {
    core::require(active_.size() == n_paused_, "the KV cache is full: retained sequences hold {} of its {} blocks",
                  cache().blocks_in_use(), cache().n_blocks());
    return false;
  }
  try {
    issue(plan_ahead());
    decide(runner_.collect(in_flight_steps_.front().issued));
    if (on_step_) on_step_(in_flight_steps_.front().report);
    n_rows = in_flight_steps_.front().n_rows;
    in_flight_steps_.pop_front();
  } catch (...) {
    failed_ = std::exchange(current_, std::nullopt);
    recall();
    retire();
    throw;
  }
  retire();
  const double seconds = core::seconds_since(start);
  done_.step_seconds += seconds;
  if (n_rows > 0) goodput_.measured(n_rows, seconds - draft_seconds_);
  return true;
}

// Collects draft tokens for the next plan, for all sequences in one call of the drafter. A sequence may have at most
// max_rows / (number of running sequences) rows, including forced drafts.
void Engine::draft() {
  std::vector<Sequence*> drafting;
  std::vector<Goodput::Candidate> candidates;
  std::vector<size_t> n_drafts;
  size_t n_decoding = 0;
  const size_t n_running = std::max<size_t>(scheduler_.running().size(), 1);
  const size_t most = std::max<size_t>(scheduler_.max_rows() / n_running, 1) - 1;
  for (Sequence* s : scheduler_.running()) {
    s->set_optional(0);
    if (s->in_flight() == 0 && s->n_missing() == 1) ++n_decoding;
    const auto candidate = request_of(*s).candidate(*s, most);
    if (!candidate) continue;
    drafting.push_back(s);
    candidates.push_back(*candidate);
  }
  if (drafting.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  const auto wanted = goodput_.choose(candidates, n_decoding);
  std::vector<Drafter::Input> inputs;
  for (size_t i = 0; i < drafting.size(); ++i) {
    ActiveRequest& request = request_of(*drafting[i]);
    if (const auto input = request.begin_drafts(*drafting[i], most, wanted[i])) inputs.push_back(*input);
    n_drafts.push_back(request.n_drafts(*drafting[i]));  // forced drafts only
  }
  if (!inputs.empty()) drafter_->draft(inputs);
  for (size_t i = 0; i < drafting.size(); ++i) {
    drafting[i]->set_optional(request_of(*drafting[i]).n_drafts(*drafting[i]));
    n_drafts[i] = drafting[i]->n_optional() - n_drafts[i];
  }
  const double seconds = core::seconds_since(start);
  draft_seconds_ += seconds;
  if (!inputs.empty()) goodput_.drafted(n_drafts, seconds, std::ranges::any_of(inputs, &Drafter::Input::after_pause));
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
  const auto append = [&](Sequence& s, size_t most) {
    const size_t n = request_of(s).append_rows(s, rows_, most, most_reported);
    if (n == 0) return n;
    PlannedRows& own = planned.emplace_back(
        PlannedRows{.sequence = &s, .n_rows = n, .row = rows_.size() - n, .draw = n_draws, .logit_row = n_logit_rows});
    const bool keeps_hidden = drafter_->reads_hidden() && request_of(s).needs_hidden(s);
    for (Row& row : std::span(rows_).last(n)) {
      row.keeps_hidden = keeps_hidden;
      own.n_draws += row.sampler != nullptr ? 1 : 0;
      own.n_logit_rows += row.wants_logits ? 1 : 0;
    }
    n_draws += own.n_draws;
    n_logit_rows += own.n_logit_rows;
    return n;
  };
  const auto& trace = scheduler_.plan(append, [&](Sequence& s) {
    ++done_.preemptions;
    cancel_draws(s);
    request_of(s).was_preempted(s);
    report_.preempted.push_back(s.key());
  });
  for (const Sequence* s : trace.started) {
    done_.cached_tokens += static_cast<uint64_t>(s->n_cached());
    report_.started.push_back({s->key(), s->n_cached()});
  }
  for (const PlannedRows& rows : planned) request_of(*rows.sequence).started(*rows.sequence);
  done_.plan_seconds += core::seconds_since(start);
  return planned;
}

// Plans one row for each token that the step in flight draws, before these tokens are known. Returns an empty plan if
// this is not possible, for example because a sequence still has prompt rows to compute.
std::vector<Engine::PlannedRows> Engine::plan_ahead() {
  if (!runner_.feeds()) return {};
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  for (const Sequence* s : scheduler_.running()) {
    if (request_of(*s).needs_next_token(*s)) return {};
  }
  std::vector<PlannedRows> planned;
  std::vector<Sequence*> sequences;
  for (const PlannedRows& rows : in_flight_steps_.back().planned) {
    Sequence* const s = rows.sequence;
    ActiveRequest& request = request_of(*s);
    if (request.ends_next(*s)) continue;
    planned.push_back({.sequence = s, .n_rows = 1, .draw = rows_.size(), .n_draws = 1});
    sequences.push_back(s);
    rows_.push_back(request.row_ahead(*s, rows.draw));
  }
  if (!scheduler_.can_continue(sequences)) planned.clear();
  done_.plan_seconds += core::seconds_since(start);
  return planned;
}

// Starts a step without waiting for its results. Returns false if there are no rows.
bool Engine::issue(std::vector<PlannedRows> planned) {
  if (planned.empty()) return false;
  ActiveRequest& first = request_of(*planned.front().sequence);
  const Observer observer = first.observer_of(*planned.front().sequence);
  if (observer) failed_ = planned.front().sequence->request();  // in case the observer throws
  InFlightStep step{.issued = runner_.issue(rows_, observer), .planned = std::move(planned)};
  failed_.reset();
  if (observer) first.observed(*step.planned.front().sequence);
  n_issued_ = runner_.n_issued();
  const bool decodes = std::ranges::all_of(step.planned, [](const PlannedRows& r) { return r.n_draws == r.n_rows; });
  step.n_rows = decodes ? rows_.size() : 0;
  for (const PlannedRows& rows : step.planned) rows.sequence->issued(rows.n_rows);
  step.report = std::exchange(report_, {});
  for (const PlannedRows& rows : step.planned) step.report.shares.push_back({rows.sequence->key(), rows.n_rows});
  ++done_.steps;
  done_.rows += rows_.size();
  in_flight_steps_.push_back(std::move(step));
  return true;
}

void Engine::decide(const StepOutput& output) {
  const auto vocab_size = static_cast<size_t>(config().vocab_size);
  const std::vector<PlannedRows>& planned = in_flight_steps_.front().planned;
  std::vector<Drafter::Computed> computed;
  for (const PlannedRows& rows : planned) {
    current_ = rows.sequence->request();
    const size_t first = rows.sequence->n_computed();
    done_.tokens += active_.at(*current_).take(
        *rows.sequence, rows.n_rows,
        {.logits = output.logits.subspan(rows.logit_row * vocab_size, rows.n_logit_rows * vocab_size),
         .tokens = output.tokens.subspan(rows.draw, rows.n_draws)});
    rows.sequence->remember();
    if (output.hidden.empty()) continue;
    const auto dim = static_cast<size_t>(config().dim);
    const auto hidden = output.hidden.subspan(rows.row * dim, rows.n_rows * dim);
    const auto own = active_.at(*current_).computed(*rows.sequence, first, hidden, dim);
    if (own) computed.push_back(*own);
  }
  for (const PlannedRows& rows : planned) {
    current_ = rows.sequence->request();
    active_.at(*current_).decide(scheduler_);
  }
  current_.reset();
  if (!computed.empty()) drafter_->observe(computed);
}

// Discards all steps in flight without waiting for their results. The sequences compute these rows again.
void Engine::recall() {
  for (auto& [id, request] : active_) request.recall();
  in_flight_steps_.clear();
}

// Stores the results of ended requests, and releases the blocks of ended sequences.
void Engine::retire() {
  for (auto a = active_.begin(); a != active_.end();) {
    const auto next = std::next(a);
    if (a->second.done()) {
      ended_.emplace(a->first, a->second.results());
      release(a);
    } else {
      for (Choice& c : a->second.choices()) {
        if (c.reason) release(c);
      }
    }
    a = next;
  }
}

// Pauses requests with a full backlog and resumes those whose backlog has drained. A paused request is treated as
// preempted: its blocks stay cached until evicted, and it resumes before all later requests.
void Engine::pause_and_resume() {
  n_paused_ = 0;
  for (auto& [id, request] : active_) {
    const Backlog* backlog = request.request().backlog.get();
    if (backlog == nullptr) continue;
    const bool pauses = request.paused() ? !backlog->has_drained() : backlog->full();
    if (pauses) ++n_paused_;
    if (pauses == request.paused()) continue;
    request.set_paused(pauses);
    for (Choice& s : request.choices()) {
      if (s.reason) continue;
      if (pauses) {
        if (s.runs()) report_.preempted.push_back(s.key());
        release(s);
        request.was_preempted(s);
      } else {
        scheduler_.add(s);
      }
    }
  }
}

// Releases a sequence's blocks, and discards its rows in flight. Other sequences can reuse the blocks immediately, even
// if steps in flight still access them, since steps run in order.
void Engine::release(Sequence& sequence) {
  const ActiveRequest& request = request_of(sequence);
  sequence.recall();
  cancel_draws(sequence);
  if (request.request().options.remember_tail) sequence.remember_tail();
  scheduler_.remove(sequence);
}

// Removes a sequence's draws from the steps in flight, so that its sampler may be destroyed.
void Engine::cancel_draws(const Sequence& sequence) {
  for (InFlightStep& step : in_flight_steps_) {
    std::erase_if(step.planned, [&](const PlannedRows& rows) {
      if (rows.sequence != &sequence) return false;
      for (Draw& draw : std::span(step.issued.draws).subspan(rows.draw, rows.n_draws)) draw.sampler = nullptr;
      return true;
    });
  }
}

void Engine::release(std::map<RequestId, ActiveRequest>::iterator active) {
  for (Choice& c : active->second.choices()) release(c);
  active_.erase(active);
}

void Engine::cancel(RequestId id) {
  failed_ = id;  // in case a callback throws
  const auto active = active_.find(id);
  if (active != active_.end()) active->second.finish(FinishReason::Interrupted);
  failed_.reset();
  retire();
}

std::vector<GenerateResult> Engine::take_all(RequestId id) {
  const auto found = ended_.find(id);
  core::require(found != ended_.end(), "request {} is unknown or has not ended", id);
  std::vector<GenerateResult> results = std::move(found->second);
  ended_.erase(found);
  return results;
}

EngineStatistics Engine::statistics() const {
  EngineStatistics all = done_;
  all.running = scheduler_.running().size();
  all.waiting = scheduler_.waiting().size();
  for (const auto& [id, request] : active_) {
    const auto is_paused = [&](const Choice& c) { return request.paused() && !c.reason; };
    all.paused += static_cast<size_t>(std::ranges::count_if(request.choices(), is_paused));
  }
  all.blocks_in_use = runner_.cache().blocks_in_use();
  all.n_blocks = runner_.cache().n_blocks();
  if (const StepTime& time = goodput_.time(); time.measured()) {
    all.fixed_seconds = time.fixed;
    all.row_seconds = time.per_row;
    all.pass_seconds = goodput_.pass_seconds();
  }
  return all;
}

std::vector<SequenceView> Engine::sequences() const {
  std::vector<SequenceView> views;
  const auto view = [&](const Sequence& s) {
    const size_t n_prompt = active_.at(s.request()).request().prompt.size();
    views.push_back({.id = s.key(),
                     .n_prompt = n_prompt,
                     .n_tokens = n_prompt + s.generated().size(),
                     .blocks = s.runs() ? runner_.cache().table(s.id()) : std::span<const BlockId>{}});
  };
  for (const Sequence* s : scheduler_.running()) view(*s);
  for (const Sequence* s : scheduler_.waiting()) view(*s);
  for (const auto& [id, request] : active_) {
    for (const Choice& c : request.choices()) {
      if (request.paused() && !c.reason) view(c);
    }
  }
  return views;
}

void Engine::drop(RequestId id) {
  const auto active = active_.find(id);
  if (active != active_.end()) release(active);
  ended_.erase(id);
  if (failed_ == id) failed_.reset();
}

}  // namespace folio::infer
