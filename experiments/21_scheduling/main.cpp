// Study: what does a scheduler decide, and what does each decision cost and save? The results are explained in
// README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/formats/model_files.h"
#include "core/paths.h"
#include "experiments/21_scheduling/requests.h"
#include "experiments/21_scheduling/schedule.h"
#include "experiments/21_scheduling/schedule_picture.h"
#include "experiments/common/report.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::Cell;
using experiments::Counts;
using experiments::kTrace;
using experiments::ratio;
using experiments::Report;
using experiments::Schedule;
using experiments::Variant;

constexpr int64_t kSmallCache = 7;  // KV blocks; the longest request needs 5

// Indices into ladder(). Each variant adds one feature to the previous one.
constexpr size_t kStatic = 0, kContinuous = 1, kChunks = 2, kPrefixes = 3, kDrafts = 4;

std::vector<Variant> ladder() {
  std::vector<Variant> steps{{.name = "static batches", .continuous = false}};
  Variant next{.name = "continuous, whole prompts"};
  steps.push_back(next);
  next.name = fmt::format("prompts in chunks: {} rows a step", experiments::kChunked);
  next.max_rows = experiments::kChunked;
  steps.push_back(next);
  next.name = "chunks, prefix cache";
  next.caches_prefixes = true;
  steps.push_back(next);
  next.name = "chunks, prefix cache, drafts";
  next.n_drafts = 8;
  steps.push_back(next);
  return steps;
}

class Study {
 public:
  explicit Study(Report& report)
      : report_(report),
        model_(core::read_model(core::folio_home() / "tests/golden/shakespeare_48")),
        requests_(experiments::requests(model_, report.seed())),
        alone_(experiments::texts_alone(model_, requests_)) {
    for (const Variant& variant : ladder()) ladder_.push_back(run(variant));
    for (const Schedule& schedule : ladder_) counts_.push_back(experiments::count(schedule));
  }

  void decisions();
  void by_request();
  void budgets();
  void memory();
  void drafts();
  void texts();

 private:
  // Runs a variant and counts the outputs that differ from those of the requests run separately.
  Schedule run(const Variant& variant) {
    Schedule schedule = experiments::run(model_, requests_, variant);
    for (size_t i = 0; i < alone_.size(); ++i) n_other_ += schedule.texts[i] == alone_[i] ? 0 : 1;
    n_texts_ += std::ssize(alone_);
    return schedule;
  }

  Report& report_;
  core::StoredModel model_;
  std::vector<infer::Request> requests_;
  std::vector<std::vector<int32_t>> alone_;
  std::vector<Schedule> ladder_;  // schedule of each variant of ladder(), indexed by kStatic to kDrafts
  std::vector<Counts> counts_;
  int64_t n_texts_ = 0;
  int64_t n_other_ = 0;
};

template <typename Number>
double mean(const std::vector<Number>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the number of rows that the trace needs without prefix caching, draft tokens and preemption. A request's last
// token is never an input, so it needs no row.
int64_t rows_needed() {
  int64_t rows = 0;
  for (const auto& arrival : kTrace) rows += static_cast<int64_t>(arrival.n_prompt) + arrival.n_tokens - 1;
  return rows;
}

// Counts prefill chunks after which prompt tokens remain, over all requests and steps.
int64_t cuts(const Schedule& schedule) {
  int64_t n = 0;
  for (const auto& step : schedule.steps) {
    n +=
        std::count_if(step.begin(), step.end(), [](const Cell& cell) { return cell.n_rows > 0 && cell.n_tokens == 0; });
  }
  return n;
}

void Study::decisions() {
  Report::Rows rows;
  for (size_t i = 0; i < ladder_.size(); ++i) {
    const Counts& c = counts_[i];
    rows.push_back({ladder_[i].variant.name, std::ssize(ladder_[i].steps), c.rows, c.empty, c.cost, mean(c.first_token),
                    std::ranges::max(c.first_token), mean(c.first_token_cost), std::ranges::max(c.first_token_cost),
                    c.longest_gap});
  }
  report_.table("What each decision changes",
                {"", "steps", "rows", "places empty while a request waits", "time", "steps to the first token, mean",
                 "worst", "time to the first token, mean", "worst", "longest time between two tokens"},
                rows);
  report_.picture("batches.svg",
                  experiments::picture("Static and continuous batches", std::span(ladder_).subspan(kStatic, 2), false));
  report_.picture("chunks.svg", experiments::picture("Whole prompts, chunks, and chunks with a prefix cache",
                                                     std::span(ladder_).subspan(kContinuous, 3), true));

  for (const size_t step : {kStatic, kContinuous, kChunks}) {
    report_.check_equal(ladder_[step].variant.name + ": rows", counts_[step].rows, rows_needed());
  }
  report_.check_below("steps of continuous batching / of static batches",
                      ratio(ladder_[kContinuous].steps.size(), ladder_[kStatic].steps.size()), 0.75);
  report_.check_below("steps to the first token, mean: continuous / static",
                      mean(counts_[kContinuous].first_token) / mean(counts_[kStatic].first_token), 0.4);
  report_.check_equal("continuous batching: places empty while a request waits", counts_[kContinuous].empty, 0);
  report_.check_equal("continuous batching: prompts that are cut", cuts(ladder_[kContinuous]), 0);
  report_.check_above("time to the first token, mean: with chunks / with whole prompts",
                      mean(counts_[kChunks].first_token_cost) / mean(counts_[kContinuous].first_token_cost), 1.1);
  // Request b computes the 96 tokens of shared instructions; requests e, i and j reuse them.
  int64_t known = -96;
  for (const auto& arrival : kTrace) known += static_cast<int64_t>(arrival.n_instructions);
  report_.check_equal("prefix cache: rows", counts_[kPrefixes].rows, rows_needed() - known);
  report_.check_below("time to the first token, mean: with a prefix cache / without",
                      mean(counts_[kPrefixes].first_token_cost) / mean(counts_[kChunks].first_token_cost), 0.8);
}

void Study::by_request() {
  Report::Rows rows;
  for (size_t i = 0; i < kTrace.size(); ++i) {
    rows.push_back({std::string(1, kTrace[i].name), kTrace[i].step, kTrace[i].n_prompt, kTrace[i].n_tokens});
    for (const Counts& c : counts_) rows.back().push_back(c.first_token[i]);
  }
  report_.table("Steps to the first token of each request",
                {"", "arrives in step", "prompt", "tokens", "static", "continuous", "chunks", "prefixes", "drafts"},
                rows);
}

// Checks, for several row limits, that a request never waits longer for its next token than one full step.
void Study::budgets() {
  Report::Rows rows;
  double nearest = 0.0;
  for (const size_t budget : {256, 128, 64, 32, 16, 8}) {
    Variant variant = ladder_[kChunks].variant;
    variant.max_rows = budget;
    const Schedule schedule = run(variant);
    const Counts c = experiments::count(schedule);
    const double full_step = 1.0 + static_cast<double>(budget) / experiments::kRowsOfARead;
    nearest = std::max(nearest, c.longest_gap / full_step);
    rows.push_back({fmt::format("{}", budget), std::ssize(schedule.steps), c.cost, mean(c.first_token_cost),
                    std::ranges::max(c.first_token_cost), c.longest_gap, full_step});
  }
  report_.table("Chunks of other sizes, without a prefix cache",
                {"rows a step", "steps", "time", "time to the first token, mean", "worst",
                 "longest time between two tokens", "a full step"},
                rows);
  report_.check_below("all budgets: longest time between two tokens / a full step", nearest, 1.001);
  report_.check_above("longest time between two tokens, whole prompts / chunks",
                      counts_[kContinuous].longest_gap / counts_[kChunks].longest_gap, 3.0);
}

// Counts preemptions of a request while a younger one kept running.
int64_t unfair(const Schedule& schedule) {
  int64_t n = 0;
  for (const auto& step : schedule.steps) {
    for (size_t i = 0; i < step.size(); ++i) {
      const auto runs = [](const Cell& cell) { return cell.state == Cell::State::Runs; };
      n += step[i].preempted && std::any_of(step.begin() + static_cast<std::ptrdiff_t>(i), step.end(), runs) ? 1 : 0;
    }
  }
  return n;
}

void Study::memory() {
  Report::Rows rows;
  std::vector<Schedule> drawn;
  int64_t n_unfair = 0;
  int64_t n_extra = 0;
  for (const int64_t n_blocks : {32, 12, 10, 8, 7, 6}) {
    for (const size_t step : {kChunks, kPrefixes}) {
      Variant variant = ladder_[step].variant;
      variant.n_blocks = n_blocks;
      variant.name = fmt::format("{} blocks, {}", n_blocks, step == kChunks ? "no prefix cache" : "prefix cache");
      const Schedule schedule = run(variant);
      const Counts c = experiments::count(schedule);
      n_unfair += unfair(schedule);
      if (step == kChunks) n_extra += c.rows - c.again - rows_needed();
      rows.push_back({variant.name, std::ssize(schedule.steps), c.preempted, c.again, c.rows, c.cost,
                      mean(c.first_token), std::ranges::max(c.first_token)});
      if (n_blocks == kSmallCache) drawn.push_back(schedule);
    }
  }
  report_.table("A smaller cache",
                {"", "steps", "preemptions", "rows computed again", "all rows", "time",
                 "steps to the first token, mean", "worst"},
                rows);
  report_.picture("memory.svg", experiments::picture("The youngest is preempted when the cache is full", drawn, false));
  const Counts without_cache = experiments::count(drawn[0]);
  const Counts with_cache = experiments::count(drawn[1]);
  report_.check_equal("all cache sizes: preempted although a younger one kept running", n_unfair, 0);
  report_.check_equal("no prefix cache: rows beyond those needed and those computed again", n_extra, 0);
  report_.check_above("the small KV cache, no prefix cache: rows computed again",
                      static_cast<double>(without_cache.again), 0);
  report_.check_below("the small KV cache: rows computed again, with a prefix cache / without",
                      ratio(with_cache.again, without_cache.again), 0.8);
}

void Study::drafts() {
  struct Tried {
    int64_t tokens = 0, steps_before = 0, steps = 0, drafts = 0, right = 0;
  };
  std::array<Tried, 2> tried;  // [0]: sampled requests, [1]: greedy requests
  for (size_t i = 0; i < kTrace.size(); ++i) {
    Tried& t = tried[kTrace[i].likeliest ? 1 : 0];
    t.tokens += kTrace[i].n_tokens;
    for (const auto& step : ladder_[kPrefixes].steps) t.steps_before += step[i].n_tokens > 0 ? 1 : 0;
    for (const auto& step : ladder_[kDrafts].steps) {
      const auto n = static_cast<int64_t>(step[i].n_tokens);
      t.steps += n > 0 ? 1 : 0;
      t.right += std::max<int64_t>(0, n - 1);
      t.drafts += static_cast<int64_t>(step[i].n_drafts);
    }
  }
  Report::Rows rows;
  for (const size_t i : {1, 0}) {
    const Tried& t = tried[i];
    rows.push_back(
        {i == 1 ? "greedy: d, h, j" : "sampled: the other nine", t.tokens, t.steps_before, t.steps, t.drafts, t.right});
  }
  report_.table("Drafts", {"", "tokens", "steps that drew them, without drafts", "with", "drafts", "right"}, rows);
  report_.picture("drafts.svg", experiments::picture("Drafts from the sequence itself",
                                                     std::span(ladder_).subspan(kPrefixes, 2), false));
  report_.check_equal("drafts: rows beyond those without are the wrong drafts",
                      counts_[kDrafts].rows - counts_[kPrefixes].rows,
                      counts_[kDrafts].drafts - counts_[kDrafts].right);
  report_.check_below("greedy requests: steps with drafts / without", ratio(tried[1].steps, tried[1].steps_before),
                      0.9);
  report_.check_below("sampled requests: steps with drafts / without", ratio(tried[0].steps, tried[0].steps_before),
                      1.001);
}

void Study::texts() {
  const std::set<std::vector<int32_t>> different(alone_.begin(), alone_.end());
  report_.check_equal("requests with an output of their own", std::ssize(different), std::ssize(kTrace));
  report_.check_equal(fmt::format("of {} outputs: different from those of separate runs", n_texts_), n_other_, 0);
}

void study(Report& report) {
  Study study(report);
  study.decisions();
  study.by_request();
  study.budgets();
  study.memory();
  study.drafts();
  study.texts();
}

}  // namespace

int main(int argc, char** argv) { return experiments::run_study(argc, argv, "21_scheduling", study); }
