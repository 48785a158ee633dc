// Study: how much memory traffic does batching save, and when does a larger batch stop raising the throughput? The
// results are explained in README.md.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "core/manifest.h"
#include "experiments/20_batching/batches.h"
#include "experiments/20_batching/roofline.h"
#include "experiments/common/readers_model.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::ratio;
using experiments::ReadersModel;
using experiments::Report;
using experiments::Run;

double log_slope(double x0, double y0, double x1, double y1) { return std::log(y1 / y0) / std::log(x1 / x0); }

void count(Report& report, const ReadersModel& reader) {
  const size_t most = report.short_form() ? 8 : 32;
  const experiments::Batches batches(report, reader);
  std::vector<Run> alone;
  for (size_t i = 0; i < most; ++i) alone.push_back(batches.run(i, i + 1, 1));

  Report::Rows rows;
  train::LineChart chart{.title = "Bytes read for each token, by sequences decoded together",
                         .x_label = "sequences",
                         .y_label = "KB for each token",
                         .series = {{"weights", {}}, {"keys and values", {}}},
                         .log_x = true,
                         .log_y = true};
  int64_t n_texts = 0;
  int64_t n_other = 0;
  // Runs n requests, one every `apart` steps (0: all at once), adds a table row, and counts outputs that differ from
  // those of separate runs.
  const auto add = [&](const std::string& name, size_t n, size_t n_threads, int64_t apart) {
    const Run run = batches.run(0, n, n_threads, apart);
    double tokens = 0.0;
    int64_t cache_alone = 0;
    for (size_t i = 0; i < n; ++i) {
      tokens += static_cast<double>(run.texts[i].size());
      n_other += run.texts[i] == alone[i].texts[0] ? 0 : 1;
      cache_alone += static_cast<int64_t>(alone[i].work.cache_bytes_read);
    }
    n_texts += static_cast<int64_t>(n);
    if (n_threads == 1) {
      const double weights = static_cast<double>(run.work.weight_bytes) / tokens;
      const double cache = static_cast<double>(run.work.cache_bytes_read) / tokens;
      rows.push_back({name, static_cast<int64_t>(run.steps), static_cast<int64_t>(tokens), weights / 1e3, cache / 1e3,
                      ratio(run.work.matrix_multiply_adds, run.work.weight_bytes)});
      report.check_equal(name + ": bytes of keys and values read, more than in separate runs",
                         static_cast<int64_t>(run.work.cache_bytes_read) - cache_alone, 0);
      if (apart == 0) {
        chart.series[0].points.push_back({static_cast<double>(n), weights / 1e3});
        chart.series[1].points.push_back({static_cast<double>(n), cache / 1e3});
      }
    }
  };
  for (const size_t n_threads : {1, 2, 3}) {
    for (size_t n = 1; n <= most; n *= 2) add(fmt::format("{} together", n), n, n_threads, 0);
    add(fmt::format("{}, one more every 4 steps", most), most, n_threads, 4);
  }
  report.table(
      "For each token drawn",
      {"sequences", "steps", "tokens", "KB of weights", "KB of keys and values", "multiply-adds for a byte of weights"},
      rows);
  report.picture("bytes.svg", chart);

  std::set<std::vector<int32_t>> different;
  for (const Run& run : alone) different.insert(run.texts[0]);
  report.check_equal("requests with an output of their own", different.size(), most);
  report.check_equal(
      fmt::format("of {} outputs in batches, on 1 to 3 threads: different from those of separate runs", n_texts),
      n_other, 0);
  const auto& first = chart.series[0].points.front();
  const auto& last = chart.series[0].points.back();
  const double slope = log_slope(first.x, first.y, last.x, last.y);
  report.check_below("slope of the weights' bytes for each token", slope, -0.999);
  report.check_above("slope of the weights' bytes for each token", slope, -1.001);
  // Checks that a step reads all weights, except for an untied embedding. Skipped if weights were repacked on loading,
  // which changes their size.
  infer::Cpu cpu({.n_threads = 1});
  const infer::Runner runner(reader.model, cpu);
  const infer::LoadReport& loaded = runner.load_report();
  const uint64_t embedding = reader.model.config.tie_embeddings ? 0 : reader.model.tensors[0].bytes.size();
  if (loaded.repacked_bytes > 0) return;
  report.check_equal("bytes of weights in a step", alone[0].work.weight_bytes / alone[0].steps,
                     loaded.weight_bytes - embedding);
}

void time(Report& report) {
  infer::Cpu cpu({.n_threads = 1});
  const double seconds = report.short_form() ? 0.0 : 1.0;  // seconds per measurement
  const core::StoredModel model =
      experiments::random_model(experiments::timed_config(report.short_form()), report.seed());
  const experiments::Roofs roofs =
      experiments::measure_roofs(cpu, size_t{report.short_form() ? 32U : 512U} << 20U, seconds);
  report.say(fmt::format("one core, {}:", core::isa_name(cpu.kernels().isa)));
  report.value("GB/s from memory", roofs.bytes_per_s / 1e9);
  report.value("billion multiply-adds/s", roofs.multiply_adds_per_s / 1e9);
  report.value("the ridge: multiply-adds for a byte", roofs.multiply_adds_per_s / roofs.bytes_per_s);
  std::vector<int64_t> numbers;
  for (int64_t n = 1; n <= (report.short_form() ? 8 : 128); n *= 2) numbers.push_back(n);
  Report::Rows rows;
  train::LineChart chart{.title = "Tokens a second, by sequences decoded together",
                         .x_label = "sequences",
                         .y_label = fmt::format("tokens/s on one core; {:.1f} million parameters, which no cache holds",
                                                static_cast<double>(core::parameter_count(model.config)) / 1e6),
                         .series = {{"measured", {}}, {"memory's roof", {}}, {"multiply-adds' roof", {}}},
                         .log_x = true,
                         .log_y = true};
  for (const experiments::StepTime& t : experiments::time_steps(cpu, model, numbers, seconds)) {
    const auto n = static_cast<double>(t.n_sequences);
    const double by_memory = n * roofs.bytes_per_s / t.weight_bytes;
    const double by_products = n * roofs.multiply_adds_per_s / t.multiply_adds;
    rows.push_back({fmt::format("{}", t.n_sequences), t.multiply_adds / t.weight_bytes, 1e3 * t.seconds, n / t.seconds,
                    by_memory, by_products});
    chart.series[0].points.push_back({n, n / t.seconds});
    chart.series[1].points.push_back({n, by_memory});
    chart.series[2].points.push_back({n, by_products});
  }
  report.table("Time of a step (shown, not judged)",
               {"sequences", "multiply-adds for a byte", "ms", "tokens/s", "memory's roof", "multiply-adds' roof"},
               rows);
  report.picture("roofline.svg", chart);
}

void study(Report& report) {
  const ReadersModel reader = experiments::readers_model(report);
  count(report, reader);
  time(report);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run_study(argc, argv, "20_batching", study); }
