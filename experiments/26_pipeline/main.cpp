// Study: how long are the ranks of a pipeline idle, and how does the schedule of the same work change that? The results
// are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "experiments/26_pipeline/pipeline_picture.h"
#include "experiments/26_pipeline/plans.h"
#include "experiments/26_pipeline/simulation.h"
#include "experiments/26_pipeline/sleeping_stages.h"
#include "experiments/common/ranks.h"
#include "experiments/common/report.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::Plan;
using experiments::Report;
using experiments::Timeline;
using experiments::Times;

constexpr int64_t kRanks = 8, kMicrobatches = 20;  // as in figure 5 of the DeepSeek-V3 report
constexpr int64_t kChunks = 2;
// Forward pass, input gradient and weight gradient have equal times; overlapping two passes saves nothing.
constexpr Times kAlike{.forward = 2, .backward_input = 2, .backward_weights = 2, .both = 6};

// A schedule, with the idle time and the stored activations that the literature states for it.
struct Scheme {
  Plan (*plan)(int64_t n_ranks, int64_t n_microbatches);
  const char* formula;
  int64_t (*idle)(int64_t n_ranks, const Times& times);
  int64_t (*held)(int64_t n_ranks);  // microbatches whose activations a rank holds; 0: not stated
};

const std::array kSchemes = {
    Scheme{experiments::plan_1f1b, "(p − 1)(F + B)",
           [](int64_t p, const Times& t) { return (p - 1) * (t.forward + t.backward()); }, [](int64_t p) { return p; }},
    Scheme{[](int64_t p, int64_t m) { return experiments::plan_interleaved(p, kChunks, m); }, "(p − 1)(F + B) / 2",
           [](int64_t p, const Times& t) { return (p - 1) * (t.forward + t.backward()) / kChunks; },
           [](int64_t) -> int64_t { return 0; }},
    Scheme{experiments::plan_zb1p, "(p − 1)(F + B − 2W)",
           [](int64_t p, const Times& t) { return (p - 1) * (t.forward + t.backward() - 2 * t.backward_weights); },
           [](int64_t p) { return p; }},
    Scheme{experiments::plan_dualpipe, "(p/2 − 1)(F&B + B − 3W)",
           [](int64_t p, const Times& t) { return (p / 2 - 1) * (t.both + t.backward() - 3 * t.backward_weights); },
           [](int64_t p) { return p + 1; }}};

// Returns the times of one stage: `of_rank` divided by n_stages / n_ranks, which is 1 except for the interleaved plan.
Times times_of(const Plan& plan, const Times& of_rank) {
  const int64_t parts = plan.n_stages / plan.n_ranks();
  return {.forward = of_rank.forward / parts,
          .backward_input = of_rank.backward_input / parts,
          .backward_weights = of_rank.backward_weights / parts,
          .both = of_rank.both / parts};
}

Timeline timeline_of(const Plan& plan, const Times& of_rank) { return simulate(plan, times_of(plan, of_rank)); }

int64_t least(const std::vector<int64_t>& of_ranks) { return std::ranges::min(of_ranks); }
int64_t most(const std::vector<int64_t>& of_ranks) { return std::ranges::max(of_ranks); }

// Formats a range: "10 to 12", or "42" if both ends are equal.
std::string range(int64_t low, int64_t high) {
  return low == high ? std::to_string(low) : fmt::format("{} to {}", low, high);
}

void paper_table(Report& report) {
  Report::Rows rows;
  std::vector<experiments::Panel> panels;
  for (const Scheme& scheme : kSchemes) {
    const Plan plan = scheme.plan(kRanks, kMicrobatches);
    const Timeline timeline = timeline_of(plan, kAlike);
    const auto idle = idle_times(timeline);
    const auto held = most_held(plan);
    const int64_t end = end_of(timeline), expected = scheme.idle(kRanks, kAlike);
    rows.push_back({plan.name, scheme.formula, expected, range(least(idle), most(idle)), end,
                    fmt::format("{:.1f} %", 100.0 * static_cast<double>(most(idle)) / static_cast<double>(end)),
                    fmt::format("{}×", plan.n_models()), fmt::format("{:g} to {:g}", held.back(), held.front())});
    if (held.back() == held.front()) rows.back().back() = fmt::format("{:g}", held.front());
    report.check_equal(plan.name + ": the idle time of each rank is the formula's, at least", least(idle), expected);
    report.check_equal(plan.name + ": and at most", most(idle), expected);
    if (const int64_t n = scheme.held(kRanks); n > 0) {
      report.check_equal(plan.name + ": the most microbatches whose activations a rank holds",
                         static_cast<int64_t>(std::ranges::max(held)), n);
    }
    panels.push_back(
        {fmt::format("{}: each rank waits for {} of {}", plan.name, range(least(idle), most(idle)), end), timeline});
  }
  report.table(fmt::format("{} ranks, {} microbatches, F = 2, B = 4 of which W = 2, F&B = 6", kRanks, kMicrobatches),
               {"", "idle time, by formula", "", "counted", "end", "of the time", "parameters", "activations"}, rows);
  report.picture(
      "schedules.svg",
      experiments::picture("Each rank's actions over time, in four orders of the same work",
                           "8 ranks, 20 microbatches; forward 2, backward 4, of which the weights' half is 2", panels));
}

// Checks under which conditions the idle-time formulas of kSchemes are correct, for various times of the actions.
void other_times(Report& report) {
  struct Case {
    const char* what;
    Times times;
  };
  const std::array cases = {
      Case{"F = I = W, F&B = F + B", kAlike},
      Case{"F = I = W, F&B = 0.9 (F + B)", {.forward = 20, .backward_input = 20, .backward_weights = 20, .both = 54}},
      Case{"F = I > W", {.forward = 6, .backward_input = 6, .backward_weights = 4, .both = 16}},
      Case{"F < I, F > W", {.forward = 6, .backward_input = 8, .backward_weights = 4, .both = 18}},
      Case{"F > I > W", {.forward = 8, .backward_input = 6, .backward_weights = 4, .both = 18}},
      Case{"F = I < W", {.forward = 4, .backward_input = 4, .backward_weights = 6, .both = 14}}};
  Report::Rows rows;
  for (const Case& c : cases) {
    rows.push_back({c.what});
    for (const Scheme& scheme : kSchemes) {
      const auto idle = idle_times(timeline_of(scheme.plan(kRanks, kMicrobatches), c.times));
      rows.back().emplace_back(fmt::format("{} / {}", scheme.idle(kRanks, c.times), range(least(idle), most(idle))));
    }
  }
  report.table("Idle time, by formula / counted, with other times", {"", "1F1B", "interleaved", "ZB1P", "DualPipe"},
               rows);

  // Counts for how many combinations of action times and rank counts a formula equals the longest simulated idle time.
  struct Tally {
    int64_t n = 0, equal = 0;
  };
  std::array<std::array<Tally, 2>, kSchemes.size()> tallies{};  // [scheme][1 if the formula's condition holds]
  const auto condition = [](size_t scheme, const Times& t) {
    if (scheme < 2) return true;
    if (scheme == 2) return t.backward_weights <= std::min(t.forward, t.backward_input);
    return t.forward == t.backward_input && t.backward_weights <= t.forward;
  };
  for (const auto& [ranks, microbatches] : {std::pair<int64_t, int64_t>{4, 8}, {6, 20}, {8, 16}}) {
    for (size_t i = 0; i < kSchemes.size(); ++i) {
      const Plan plan = kSchemes[i].plan(ranks, microbatches);
      for (int64_t code = 0; code < 64; ++code) {
        Times t{.forward = 2 + 2 * (code % 4),
                .backward_input = 2 + 2 * (code / 4 % 4),
                .backward_weights = 2 + 2 * (code / 16),
                .both = 0};
        const int64_t alone = t.forward + t.backward();
        for (const int64_t both : {alone, std::max(t.forward, t.backward())}) {
          t.both = both;
          Tally& tally = tallies[i][condition(i, t) ? 1 : 0];
          ++tally.n;
          tally.equal += most(idle_times(timeline_of(plan, t))) == kSchemes[i].idle(ranks, t) ? 1 : 0;
        }
      }
    }
  }
  rows.clear();
  constexpr std::array kConditions = {"always", "always", "W ≤ F and W ≤ I", "F = I and W ≤ F"};
  for (size_t i = 0; i < kSchemes.size(); ++i) {
    const auto& [without, with] = tallies[i];
    rows.push_back({kSchemes[i].plan(4, 8).name, kConditions[i], with.n, with.equal, without.n, without.equal});
    report.check_equal(
        fmt::format("{}: cases in which the formula holds, condition: {}", kSchemes[i].plan(4, 8).name, kConditions[i]),
        with.equal, with.n);
  }
  report.table("The longest idle time of a rank, of 4, 6 and 8 ranks with all times of 2, 4, 6 and 8",
               {"", "condition", "cases with it", "formula right", "cases without", "formula right"}, rows);
}

// Ranks and microbatches of the run in which real processes sleep instead of computing.
constexpr int64_t kProcesses = 4, kSleptMicrobatches = 8;

std::vector<experiments::Slept> plans_of(bool short_form) {
  return experiments::plans_to_sleep(kProcesses, kSleptMicrobatches, short_form ? 10'000 : 50'000);
}

void sleeping(Report& report) {
  const auto file = report.directory() / "slept.json";
  experiments::run_ranks(kProcesses, {report.short_form() ? "short" : "full", file.string()});
  const auto plans = plans_of(report.short_form());
  const std::vector<Timeline> measured = experiments::read_timelines(file);
  const auto ms = [](int64_t us) { return static_cast<double>(us) / 1000.0; };
  Report::Rows rows;
  std::vector<experiments::Panel> panels;
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto& [plan, times] = plans[i];
    const Timeline counted = simulate(plan, times);
    const auto idle = idle_times(measured[i]);
    rows.push_back({plan.name, fmt::format("{:.1f}", ms(end_of(counted))),
                    fmt::format("{:.1f}", ms(end_of(measured[i]))),
                    fmt::format("{:.1f}", ms(most(idle_times(counted)))),
                    fmt::format("{:.1f} to {:.1f}", ms(least(idle)), ms(most(idle)))});
    report.check_equal(plan.name + ": actions of the processes before their inputs, or in another order",
                       count_out_of_order(plan, measured[i]), 0);
    report.check_above(plan.name + ": time of the processes, as a multiple of the count",
                       ms(end_of(measured[i])) / ms(end_of(counted)), 1.0);
    panels.push_back({fmt::format("{}, counted: {:.0f} ms", plan.name, ms(end_of(counted))), counted});
    panels.push_back({fmt::format("{}, measured: {:.0f} ms", plan.name, ms(end_of(measured[i]))), measured[i]});
  }
  report.table(fmt::format("{} processes, {} microbatches, ms", kProcesses, kSleptMicrobatches),
               {"", "counted", "measured", "idle, counted", "idle, measured"}, rows);
  report.picture("slept.svg",
                 experiments::picture("Four processes whose stages sleep, and the count",
                                      "a rank's forward pass takes a third of its time, backward two thirds", panels));
}

void study(Report& report) {
  if (report.seed() != 1) throw core::UsageError("--seed has no effect, since nothing is random here; remove it");
  paper_table(report);
  other_times(report);
  sleeping(report);
}

}  // namespace

int main(int argc, char** argv) {
  const auto as_rank = [](const auto& launch, const auto& arguments) {
    experiments::sleep_as_rank(launch, plans_of(arguments.at(0) == "short"), arguments.at(1));
  };
  if (const auto code = experiments::run_as_rank(argc, argv, as_rank)) return *code;
  return experiments::run(argc, argv, "26_pipeline", study);
}
