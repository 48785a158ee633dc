#include "experiments/21_scheduling/schedule.h"

#include <algorithm>
#include <deque>

#include "experiments/21_scheduling/requests.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/branch.h"
#include "infer/engine/prompt_lookup.h"
#include "infer/engine/scheduler.h"
#include "infer/forward/runner.h"

namespace folio::experiments {
namespace {

using infer::Branch;
using infer::Row;
using Plan = infer::Scheduler<Branch>::Trace;

// The requests on their way.
class Run {
 public:
  Run(const core::StoredModel& model, std::span<const infer::Request> requests, const Variant& variant)
      : cpu_({.n_threads = 1}),
        runner_(model, cpu_, {.max_positions = variant.n_blocks * infer::kBlockPositions}),
        scheduler_(runner_.cache(), {.max_rows = variant.max_rows, .max_sequences = kPlaces}),
        highest_(requests.size()),
        schedule_{.variant = variant, .steps = {}, .texts = {}} {
    for (const infer::Request& request : requests) {
      requests_.push_back(request);
      requests_.back().options.speculate = variant.n_drafts;
      branches_.emplace_back(std::ssize(branches_), 0, requests_.back(), model.config, runner_.cache());
    }
  }

  Schedule to_the_end() {
    while (std::any_of(branches_.begin(), branches_.end(), [](const Branch& branch) { return !branch.done(); })) step();
    for (const Branch& branch : branches_) schedule_.texts.push_back(branch.result().tokens);
    return schedule_;
  }

 private:
  void step() {
    let_in();
    std::vector<Cell>& cells = schedule_.steps.emplace_back(states());

    draft();
    std::vector<Row> rows;
    size_t most_reported = 0;  // nobody asks for logits
    const Plan& plan =
        scheduler_.plan([&](Branch& branch, size_t most) { return branch.append_rows(rows, most, most_reported); });
    for (Branch* branch : plan.preempted) {
      cells[index(branch)].preempted = true;
      branch->was_preempted();
    }
    for (const Plan::Share& share : plan.shares) note_rows(cells[index(share.branch)], share);

    infer::StepOutput output = runner_.forward(rows);
    for (const Plan::Share& share : plan.shares) {
      Branch& branch = *share.branch;
      const size_t n_before = branch.n_generated();
      branch.issued(share.n_rows);
      output = branch.take(output, share.n_rows);
      cells[index(share.branch)].n_tokens = branch.n_generated() - n_before;
      if (schedule_.variant.knows_prefix) branch.remember();
      if (branch.done()) scheduler_.remove(branch);
    }
  }

  // What the plan may try.
  void draft() {
    std::vector<infer::Drafter::Text> texts;
    for (Branch* branch : scheduler_.running()) {
      if (const auto text = branch->to_draft(scheduler_.n_drafts_each())) texts.push_back(*text);
    }
    lookup_.draft(texts);
  }

  // A static batch is filled when the one before has ended. What the scheduler doesn't know, it can't let run.
  void let_in() {
    const bool nobody_runs = scheduler_.running().empty();
    if (nobody_runs) batch_ = n_in_;
    const auto has_come = [&] { return n_in_ < branches_.size() && kTrace[n_in_].step <= std::ssize(schedule_.steps); };
    const auto may = [&] { return schedule_.variant.continuous || (nobody_runs && n_in_ - batch_ < kPlaces); };
    while (has_come() && may()) scheduler_.add(branches_[n_in_++]);
  }

  // Of the requests before a step: who has not come, waits, has ended.
  std::vector<Cell> states() const {
    std::vector<Cell> cells(branches_.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      if (kTrace[i].step > std::ssize(schedule_.steps)) continue;
      if (!branches_[i].done()) cells[i].state = Cell::State::Waits;
      if (branches_[i].done() && !schedule_.variant.continuous && i >= batch_) cells[i].state = Cell::State::KeepsPlace;
    }
    return cells;
  }

  void note_rows(Cell& cell, const Plan::Share& share) {
    const auto first = static_cast<size_t>(runner_.cache().length(share.branch->sequence()));
    const size_t n_known = std::min(share.n_rows, share.branch->tokens().size() - first);
    size_t& highest = highest_[index(share.branch)];
    cell.state = Cell::State::Runs;
    cell.n_rows = share.n_rows;
    cell.n_drafts = share.n_rows - n_known;
    cell.n_again = std::min(n_known, highest - std::min(highest, first));
    highest = std::max(highest, first + n_known);
  }

  static size_t index(const Branch* branch) { return static_cast<size_t>(branch->request()); }

  infer::Cpu cpu_;
  infer::Runner runner_;
  infer::Scheduler<Branch> scheduler_;
  infer::PromptLookup lookup_;
  std::deque<infer::Request> requests_;
  std::deque<Branch> branches_;
  std::vector<size_t> highest_;  // positions that a request has had rows for
  size_t n_in_ = 0;              // requests that the scheduler knows, or knew
  size_t batch_ = 0;             // the first request of the static batch
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
  std::vector<double> since(n, 0.0);  // its last token
  std::vector<bool> began(n, false);
  for (const std::vector<Cell>& step : schedule.steps) {
    int64_t running = 0;
    bool somebody_waits = false;
    for (size_t i = 0; i < n; ++i) {
      const Cell& cell = step[i];
      counts.rows += static_cast<int64_t>(cell.n_rows);
      counts.again += static_cast<int64_t>(cell.n_again);
      counts.drafts += static_cast<int64_t>(cell.n_drafts);
      counts.right += cell.n_tokens > 1 ? static_cast<int64_t>(cell.n_tokens) - 1 : 0;
      counts.preempted += cell.preempted ? 1 : 0;
      running += cell.state == Cell::State::Runs ? 1 : 0;
      somebody_waits = somebody_waits || cell.state == Cell::State::Waits;
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
    if (somebody_waits) counts.empty += static_cast<int64_t>(kPlaces) - running;
    counts.cost += cost(step);
  }
  return counts;
}

}  // namespace folio::experiments
