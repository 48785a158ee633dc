#include "experiments/21_scheduling/schedule.h"

#include <algorithm>
#include <deque>

#include "experiments/21_scheduling/requests.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/active_request.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/scheduler.h"
#include "infer/forward/runner.h"

namespace folio::experiments {
namespace {

using infer::ActiveRequest;
using infer::Row;
using infer::Sequence;
using Plan = infer::Scheduler::Trace;

// Runs one variant step by step and records its schedule.
class Run {
 public:
  Run(const core::StoredModel& model, std::span<const infer::Request> requests, const Variant& variant)
      : cpu_({.n_threads = 1}),
        runner_(model, cpu_, {.max_positions = variant.n_blocks * infer::kBlockPositions}),
        scheduler_(runner_.cache(), {.max_rows = variant.max_rows, .max_sequences = kMaxRunning}),
        highest_(requests.size()),
        schedule_{.variant = variant, .steps = {}, .texts = {}} {
    for (infer::Request request : requests) {
      request.options.speculate = variant.n_drafts;
      requests_.emplace_back(std::ssize(requests_), request, model.config, runner_.cache(), nullptr);
    }
  }

  Schedule to_the_end() {
    while (!std::ranges::all_of(requests_, &ActiveRequest::done)) step();
    for (const ActiveRequest& request : requests_) schedule_.texts.push_back(request.results().front().tokens);
    return schedule_;
  }

 private:
  void step() {
    let_in();
    std::vector<Cell>& cells = schedule_.steps.emplace_back(states());

    draft();
    std::vector<Row> rows;
    size_t most_reported = 0;  // no request needs the logits of its prompt positions
    const Plan& plan = scheduler_.plan(
        [&](Sequence& s, size_t most) { return request_of(s).append_rows(s, rows, most, most_reported); });
    for (Sequence* s : plan.preempted) {
      cells[index(*s)].preempted = true;
      request_of(*s).was_preempted(*s);
    }
    for (const Plan::Share& share : plan.shares) note_rows(cells[index(*share.sequence)], share);

    const std::span<const int32_t> drawn = runner_.forward(rows).tokens;
    size_t first = 0;
    size_t n_drawn = 0;
    for (const auto& [s, n_rows] : plan.shares) {
      ActiveRequest& request = request_of(*s);
      s->issued(n_rows);
      cells[index(*s)].n_tokens = request.take(*s, n_rows, {.logits = {}, .tokens = drawn.subspan(n_drawn)});
      for (const size_t end = first + n_rows; first < end; ++first) n_drawn += rows[first].sampler != nullptr ? 1 : 0;
      if (schedule_.variant.caches_prefixes) s->remember();
      if (request.done()) scheduler_.remove(*s);
    }
    if (n_drawn == rows.size()) goodput_.measured(rows.size(), cost(cells));  // only steps without prompt rows
  }

  // Proposes draft tokens for the running sequences by prompt lookup, as many as pay off given the modeled step times.
  void draft() {
    std::vector<Sequence*> drafting;
    std::vector<infer::Goodput::Candidate> candidates;
    size_t n_decoding = 0;
    for (Sequence* s : scheduler_.running()) {
      s->set_optional(0);
      n_decoding += s->n_missing() == 1 ? 1 : 0;
      const auto candidate = request_of(*s).candidate(*s, schedule_.variant.max_rows);
      if (!candidate) continue;
      drafting.push_back(s);
      candidates.push_back(*candidate);
    }
    const auto wanted = goodput_.choose(candidates, n_decoding);
    std::vector<infer::Drafter::Input> inputs;
    for (size_t i = 0; i < drafting.size(); ++i) {
      if (const auto input = request_of(*drafting[i]).begin_drafts(*drafting[i], 0, wanted[i]))
        inputs.push_back(*input);
    }
    lookup_.draft(inputs);
    std::vector<size_t> n_drafts;
    for (Sequence* s : drafting) {
      n_drafts.push_back(request_of(*s).n_drafts(*s));
      s->set_optional(n_drafts.back());
    }
    goodput_.drafted(n_drafts, 0.0);
  }

  // Admits requests to the scheduler; static batching admits a batch when the previous one has ended.
  void let_in() {
    const bool none_running = scheduler_.running().empty();
    if (none_running) batch_ = n_in_;
    const auto has_come = [&] { return n_in_ < requests_.size() && kTrace[n_in_].step <= std::ssize(schedule_.steps); };
    const auto may = [&] { return schedule_.variant.continuous || (none_running && n_in_ - batch_ < kMaxRunning); };
    while (has_come() && may()) requests_[n_in_++].start(scheduler_);
  }

  // Returns each request's cell before a step: waiting, ended but still in a slot of its static batch, or absent (not
  // yet arrived, or finished).
  std::vector<Cell> states() const {
    std::vector<Cell> cells(requests_.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      if (kTrace[i].step > std::ssize(schedule_.steps)) continue;
      if (!requests_[i].done()) cells[i].state = Cell::State::Waits;
      if (requests_[i].done() && !schedule_.variant.continuous && i >= batch_) cells[i].state = Cell::State::HoldsSlot;
    }
    return cells;
  }

  void note_rows(Cell& cell, const Plan::Share& share) {
    const auto first = static_cast<size_t>(runner_.cache().length(share.sequence->id()));
    const size_t n_known = std::min(share.n_rows, share.sequence->tokens().size() - first);
    size_t& highest = highest_[index(*share.sequence)];
    cell.state = Cell::State::Runs;
    cell.n_rows = share.n_rows;
    cell.n_drafts = share.n_rows - n_known;
    cell.n_again = std::min(n_known, highest - std::min(highest, first));
    highest = std::max(highest, first + n_known);
  }

  static size_t index(const Sequence& s) { return static_cast<size_t>(s.request()); }
  ActiveRequest& request_of(const Sequence& s) { return requests_[index(s)]; }

  infer::Cpu cpu_;
  infer::Runner runner_;
  infer::Scheduler scheduler_;
  infer::PromptLookup lookup_;
  infer::Goodput goodput_;
  std::deque<ActiveRequest> requests_;
  std::vector<size_t> highest_;  // largest number of positions computed, by request
  size_t n_in_ = 0;              // number of requests admitted so far
  size_t batch_ = 0;             // index of the static batch's first request
  Schedule schedule_;
};

}  // namespace

Schedule run(const core::StoredModel& model, std::span<const infer::Request> requests, const Variant& variant) {
  return Run(model, requests, variant).to_the_end();
}

double cost(const std::vector<Cell>& step) {
  size_t rows = 0;
  for (const Cell& cell : step) rows += cell.n_rows;
  return 1.0 + static_cast<double>(rows) / kRowsOfARead;
}

Counts count(const Schedule& schedule) {
  const size_t n = schedule.steps.front().size();
  Counts counts{.first_token = std::vector<int64_t>(n), .first_token_cost = std::vector<double>(n)};
  std::vector<double> since(n, 0.0);  // time since the request's last token, or since its arrival
  std::vector<bool> began(n, false);
  for (const std::vector<Cell>& step : schedule.steps) {
    int64_t running = 0;
    bool any_waiting = false;
    for (size_t i = 0; i < n; ++i) {
      const Cell& cell = step[i];
      counts.rows += static_cast<int64_t>(cell.n_rows);
      counts.again += static_cast<int64_t>(cell.n_again);
      counts.drafts += static_cast<int64_t>(cell.n_drafts);
      counts.right += cell.n_tokens > 1 ? static_cast<int64_t>(cell.n_tokens) - 1 : 0;
      counts.preempted += cell.preempted ? 1 : 0;
      running += cell.state == Cell::State::Runs ? 1 : 0;
      any_waiting = any_waiting || cell.state == Cell::State::Waits;
      if (cell.state != Cell::State::Runs && cell.state != Cell::State::Waits) continue;
      since[i] += cost(step);
      if (!began[i]) {
        ++counts.first_token[i];
        counts.first_token_cost[i] = since[i];
      }
      if (cell.n_tokens == 0) continue;
      if (began[i]) counts.longest_gap = std::max(counts.longest_gap, since[i]);
      began[i] = true;
      since[i] = 0.0;
    }
    if (any_waiting) counts.empty += static_cast<int64_t>(kMaxRunning) - running;
    counts.cost += cost(step);
  }
  return counts;
}

}  // namespace folio::experiments
