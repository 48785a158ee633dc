// Study: how many draft tokens per step maximize the throughput of decoding? The results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/formats/model_files.h"
#include "core/paths.h"
#include "experiments/34_ahead/draws.h"
#include "experiments/common/report.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/engine.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::Machine;
using experiments::Report;

constexpr size_t kMost = 8;
constexpr Machine kMachine{8.0};

// Checks the formula for the expected tokens of a step with n drafts against simulated steps.
void acceptance(Report& report) {
  const size_t n_steps = report.short_form() ? 10'000 : 100'000;
  Report::Rows rows;
  std::vector<double> errors;
  for (const size_t n : {0U, 1U, 2U, 4U, 8U}) {
    std::vector<Report::Json> row{n};
    for (const double right : {0.3, 0.6, 0.9}) {
      const double expected = experiments::tokens_of(right, n);
      const double drawn = experiments::drawn_tokens(right, n, n_steps, report.seed());
      errors.push_back(std::abs(drawn / expected - 1));
      row.emplace_back(expected);
      row.emplace_back(drawn);
    }
    rows.push_back(row);
  }
  report.table("Tokens of a step, by the share of right drafts",
               {"drafts", "0.3: formula", "drawn", "0.6: formula", "drawn ", "0.9: formula", "drawn  "}, rows);
  report.check_below("drawn tokens of a step: relative distance from the formula", errors, 0.05);
}

// Compares draft lengths chosen by the engine with fixed ones on a simulated machine, on which steps of 1 to 8 rows
// take equally long.
void lengths(Report& report) {
  Report::Rows rows;
  std::vector<double> against_best, against_none;
  train::LineChart chart{.title = "Drafts pay while rows are free",
                         .x_label = "sequences",
                         .y_label = "tokens per second, relative to no drafts",
                         .series = {{"1 draft", {}}, {"3 drafts", {}}, {"8 drafts", {}}, {"decided", {}}},
                         .references = {{"no drafts", 1.0}},
                         .log_x = true};
  for (const double right : {0.3, 0.7, 0.95}) {
    for (const size_t n : {1U, 2U, 4U, 8U, 16U, 64U}) {
      const auto relative = [&](size_t length) {
        return experiments::fixed_rate(kMachine, right, n, length) / experiments::fixed_rate(kMachine, right, n, 0);
      };
      size_t best = 0;
      for (size_t length = 1; length <= kMost; ++length) best = relative(length) > relative(best) ? length : best;
      const size_t n_steps = report.short_form() ? 1000 : 4000;
      const double decided = experiments::decided_rate(kMachine, right, n, kMost, n_steps, report.seed()) /
                             experiments::fixed_rate(kMachine, right, n, 0);
      rows.push_back({right, n, best, relative(best), relative(kMost), decided});
      against_best.push_back(decided / relative(best));
      against_none.push_back(decided);
      if (right != 0.7) continue;
      const auto x = static_cast<double>(n);
      chart.series[0].points.push_back({x, relative(1)});
      chart.series[1].points.push_back({x, relative(3)});
      chart.series[2].points.push_back({x, relative(8)});
      chart.series[3].points.push_back({x, decided});
    }
  }
  report.table("Speed relative to no drafts, on a machine that reads its weights in the time of 8 rows",
               {"right", "sequences", "best length", "its speed", "speed of 8 drafts", "decided"}, rows);
  report.picture("lengths.svg", chart);
  report.check_above("decided by the engine / best fixed length", against_best, 0.95);
  report.check_above("decided by the engine / no drafts", against_none, 0.98);
}

// Reports the engine's fitted step time as a function of rows, and the acceptance rate above which drafting pays off.
void fitted(Report& report) {
  const core::StoredModel model = core::read_model(core::folio_home() / "tests/golden/shakespeare_48");
  infer::Cpu cpu({.n_threads = 1});
  infer::Engine engine(model, cpu, {.n_sequences = 16});
  const int64_t n_tokens = std::min<int64_t>(model.config.context_length / 2, 200);
  for (const size_t n : {1U, 4U, 16U}) {
    infer::ScopedRequests running(engine);
    for (size_t i = 0; i < n; ++i) {
      infer::Request request{.prompt = {1, 2, 3}, .options = {.max_tokens = n_tokens, .speculate = kMost}};
      request.options.sampler = {.temperature = 0.0F};
      running.add(std::move(request));
    }
    while (engine.step()) continue;
  }
  const infer::StepTime& time = engine.goodput().time();
  report.value("fitted: microseconds at 0 rows", time.fixed * 1e6);
  report.value("fitted: microseconds of a row", time.per_row * 1e6);
  Report::Rows rows;
  for (const size_t n : {1U, 4U, 16U, 64U}) {
    const double computed = time.per_row * static_cast<double>(n);
    rows.push_back({n, computed / (time.fixed + computed)});
  }
  report.table("The share of right drafts from which one draft of each sequence pays, by the fitted line",
               {"sequences", "share"}, rows);
  report.check_above("fitted: seconds of a step of one row", time(1), 0.0);
}

// Checks that the engine drafts if and only if the acceptance rate exceeds the relative growth of the step time.
void limits(Report& report) {
  int64_t wrong = 0;
  int64_t n_cases = 0;
  for (const double fixed : {1.0, 0.3}) {
    for (const double per_row : {0.01, 0.125, 0.5}) {
      for (const size_t n : {1U, 3U, 8U, 20U}) {
        infer::StepTime time;
        time.fixed = fixed;
        time.per_row = per_row;
        infer::Goodput goodput;
        goodput.set_times(time, 0.0);
        const double limit = per_row * static_cast<double>(n) / (fixed + per_row * static_cast<double>(n));
        for (const double right : {limit * 0.99, limit + 0.01 * (1 - limit)}) {
          const std::vector<infer::Goodput::Candidate> candidates(n, {right, right, 1});
          const auto lengths = goodput.best(candidates, n);
          const auto n_drafts = std::count(lengths.begin(), lengths.end(), 1U);
          wrong += n_drafts == (right > limit ? static_cast<int64_t>(n) : 0) ? 0 : 1;
          ++n_cases;
        }
      }
    }
  }
  report.check_equal(fmt::format("of {} cases next to the limit: decided otherwise than the limit says", n_cases),
                     wrong, 0);
}

void study(Report& report) {
  acceptance(report);
  limits(report);
  lengths(report);
  fitted(report);
}

}  // namespace

int main(int argc, char** argv) { return folio::experiments::run_study(argc, argv, "34_ahead", study); }
