#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/bench_step.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/seconds_since.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/generate.h"
#include "infer/profile/profiled_machine.h"

namespace folio::apps {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

// Measures the CPU's peak rate: multiply-adds per second of F32 matrix products on operands in each core's own cache.
double product_rate(infer::Cpu& cpu) {
  constexpr size_t kRows = 64, kColumns = 512, kOut = 64, kTimes = 20;
  struct Operands {
    std::vector<float> x = std::vector<float>(kRows * kColumns, 0.5F);
    std::vector<float> weight = std::vector<float>(kOut * kColumns, 0.25F);
    std::vector<float> out = std::vector<float>(kRows * kOut);
  };
  std::vector<Operands> operands(cpu.n_threads());
  double best = 0.0;
  for (int pass = 0; pass < 20; ++pass) {
    const auto start = Clock::now();
    cpu.pool().parallel_for(operands.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        Operands& o = operands[i];
        for (size_t t = 0; t < kTimes; ++t) {
          cpu.kernels().matmul(o.x.data(), kRows, o.weight.data(), kColumns, 0, kOut, o.out.data(), kOut, false);
        }
      }
    });
    const auto all = static_cast<double>(operands.size() * kTimes * kRows * kOut * kColumns);
    best = std::max(best, all / core::seconds_since(start));
  }
  return best;
}

struct Times {
  infer::Profile profile;
  double seconds = 0.0;                 ///< total duration of the steps, including the host's work between operations
  std::vector<double> measured, plain;  ///< seconds per step with and without profiling, by repetition
};

class Measurement {
 public:
  Measurement(const infer::LoadedModel& model, infer::Machine& machine, const BenchOptions& o)
      : o_(o),
        machine_(machine),
        engine_(model.file(), machine_,
                {.max_positions = o.prompt_tokens + o.gen_tokens + infer::kBlockPositions,
                 .n_sequences = o.batch.front(),
                 .type = o.model.load.cache_type.value_or(infer::default_cache_type(model.file()))}) {
    require_rows(engine_.runner(), o.batch.front());
  }

  // Alternates repetitions with and without profiling. The first repetition of each kind is a warm-up.
  void run() {
    for (int repetition = -kWarmUps; repetition < 2 * o_.repetitions; ++repetition) {
      machine_.enabled = repetition % 2 != 0;
      const bool last = repetition == 2 * o_.repetitions - 1;
      if (last && !o_.trace.empty()) begin_trace();
      repeat(repetition);
    }
  }

  Times prompt, decode;

  // Writes a trace for Perfetto or chrome://tracing: the operations, and the scheduler's decisions in each step.
  void write_trace() const {
    ordered_json events = ordered_json::array();
    const auto microseconds = [&](Clock::time_point t) {
      return std::chrono::duration<double, std::micro>(t - trace_start_).count();
    };
    const auto add = [&](std::string name, int thread, Clock::time_point begin, Clock::time_point end,
                         ordered_json args) {
      events.push_back({{"name", std::move(name)},
                        {"ph", "X"},
                        {"pid", 1},
                        {"tid", thread},
                        {"ts", microseconds(begin)},
                        {"dur", microseconds(end) - microseconds(begin)},
                        {"args", std::move(args)}});
    };
    for (const int thread : {1, 2}) {
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 1},
                        {"tid", thread},
                        {"args", {{"name", thread == 1 ? "engine" : "operations"}}}});
    }
    for (const TracedStep& step : steps_) {
      size_t n_rows = 0;
      ordered_json args;
      for (const auto& share : step.report.shares) {
        n_rows += share.n_rows;
        args["rows"].push_back(fmt::format("request {}: {}", share.sequence.request, share.n_rows));
      }
      for (const auto& s : step.report.started) {
        args["started"].push_back(fmt::format("request {}, {} tokens cached", s.sequence.request, s.n_cached));
      }
      for (const auto& p : step.report.preempted) args["preempted"].push_back(fmt::format("request {}", p.request));
      add(fmt::format("step of {} rows", n_rows), 1, step.begin, step.end, std::move(args));
    }
    for (const infer::TracedOperation& op : operations_) {
      add(std::string(infer::kWorkKinds[op.kind]), 2, op.begin, op.end,
          op.layer < 0 ? ordered_json::object() : ordered_json{{"layer", op.layer}});
    }
    core::write_file_atomically(o_.trace, ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump());
  }

 private:
  struct TracedStep {
    Clock::time_point begin, end;
    infer::StepReport report;
  };

  void begin_trace() {
    trace_start_ = step_begin_ = Clock::now();
    machine_.trace = &operations_;
    engine_.watch([this](const infer::StepReport& report) {
      const auto now = Clock::now();
      steps_.push_back({.begin = step_begin_, .end = now, .report = report});
      step_begin_ = now;
    });
  }

  // Runs a new batch. Measures prefill until every sequence has its first token, then decoding until the first sequence
  // ends.
  void repeat(int repetition) {
    infer::ScopedRequests running(engine_);
    size_t n_begun = 0;
    bool ended = false;
    for (infer::Request& request :
         random_requests(engine_.config(), o_.sampler, o_.batch.front(), repetition + kWarmUps, o_.prompt_tokens)) {
      request.options.max_tokens = o_.gen_tokens + 1;
      request.on_token = [&, n = 0](size_t, int32_t, std::span<const float>) mutable { n_begun += n++ == 0 ? 1 : 0; };
      request.on_end = [&](size_t, const infer::GenerateResult&) { ended = true; };
      running.add(std::move(request));
    }
    const auto until = [&](auto&& done, Times& times) {
      core::require(!done(),
                    "a sequence ended before all prompts were computed; use more --gen-tokens or a smaller --batch");
      machine_.profile = {};
      const infer::EngineStatistics before = engine_.statistics();
      while (!done() && engine_.step()) continue;
      const infer::EngineStatistics after = engine_.statistics();
      const double seconds = after.step_seconds - before.step_seconds;
      const auto n_steps = static_cast<double>(std::max<uint64_t>(after.steps - before.steps, 1));
      if (repetition < 0) return;
      (machine_.enabled ? times.measured : times.plain).push_back(seconds / n_steps);
      if (!machine_.enabled) return;
      times.seconds += seconds;
      times.profile += machine_.profile;
    };
    until([&] { return n_begun == static_cast<size_t>(o_.batch.front()); }, prompt);
    until([&] { return ended; }, decode);
  }

  static constexpr int kWarmUps = 2;  ///< one repetition with profiling, one without

  const BenchOptions& o_;
  infer::ProfiledMachine machine_;
  infer::Engine engine_;
  std::vector<infer::TracedOperation> operations_;
  std::vector<TracedStep> steps_;
  Clock::time_point trace_start_, step_begin_;
};

struct Roofs {
  double bytes_per_s;
  double multiply_adds_per_s;
};

ordered_json json_of(const Times& times, const Roofs& roofs) {
  const auto n = static_cast<double>(times.profile.steps);
  ordered_json rows = ordered_json::array();
  for (size_t k = 0; k < infer::kWorkKinds.size(); ++k) {
    const infer::Work& work = times.profile.kinds[k];
    if (work.operations == 0) continue;
    const auto bytes = static_cast<double>(work.bytes());
    const auto multiply_adds = static_cast<double>(work.multiply_adds());
    rows.push_back({{"operation", infer::kWorkKinds[k]},
                    {"us_per_step", work.seconds / n * 1e6},
                    {"share", work.seconds / times.seconds},
                    {"mb_per_step", bytes / n / 1e6},
                    {"gb_per_s", bytes / work.seconds / 1e9},
                    {"bandwidth_share", bytes / work.seconds / roofs.bytes_per_s},
                    {"multiply_adds_per_step", multiply_adds / n},
                    {"peak_share", multiply_adds / work.seconds / roofs.multiply_adds_per_s}});
  }
  const double operations = times.profile.total().seconds;
  return {{"steps", times.profile.steps},
          {"rows_per_step", static_cast<double>(times.profile.rows) / n},
          {"us_per_step", times.seconds / n * 1e6},
          {"operations_share_of_forward", operations / times.profile.step_seconds},
          {"host_us_per_step", (times.seconds - times.profile.step_seconds) / n * 1e6},
          {"cost_of_measuring", median(times.measured) / median(times.plain) - 1.0},
          {"operations", rows}};
}

void print(const char* title, const ordered_json& t) {
  fmt::print("\n{}: {} steps of {:.1f} rows, {:.1f} us each\n\n", title, t["steps"].get<uint64_t>(),
             t["rows_per_step"].get<double>(), t["us_per_step"].get<double>());
  fmt::print("{:18}{:>12}{:>8}{:>10}{:>8}{:>12}{:>10}\n", "operation", "us/step", "share", "MB", "GB/s", "bandwidth",
             "peak");
  const auto percent = [](double share) { return share < 0.0005 ? "" : fmt::format("{:.0f}%", 100.0 * share); };
  for (const ordered_json& row : t["operations"]) {
    const double share = row["bandwidth_share"];
    fmt::print("{:18}{:12.1f}{:7.1f}%{:10.2f}{:8.1f}{:>12}{:>10}\n", row["operation"].get<std::string>(),
               row["us_per_step"].get<double>(), 100.0 * row["share"].get<double>(), row["mb_per_step"].get<double>(),
               row["gb_per_s"].get<double>(), percent(share), percent(row["peak_share"]));
  }
  fmt::print("{:18}{:12.1f}{:7.1f}%\n", "host", t["host_us_per_step"].get<double>(),
             100.0 * t["host_us_per_step"].get<double>() / t["us_per_step"].get<double>());
  fmt::print("operations take {:.1f}% of the forward pass; profiling overhead {:.1f}%\n",
             100.0 * t["operations_share_of_forward"].get<double>(), 100.0 * t["cost_of_measuring"].get<double>());
}

}  // namespace

void bench_ops(const infer::LoadedModel& model, const BenchOptions& options, double bytes_per_s) {
  if (options.batch.size() > 1 || !options.schemas.empty()) {
    throw core::UsageError("--ops accepts a single --batch and no --json-schemas");
  }
  infer::Machine& machine = model.machines().placements.front().machine;
  auto* cpu = dynamic_cast<infer::Cpu*>(&machine);
  if (cpu == nullptr || model.machines().placements.size() > 1) {
    throw core::UsageError("--ops supports one CPU only; leave out --device, --gpu-layers, --shards and WORLD_SIZE");
  }
  const Roofs roofs{bytes_per_s, product_rate(*cpu)};
  Measurement measurement(model, machine, options);
  measurement.run();
  const ordered_json prompt = json_of(measurement.prompt, roofs);
  const ordered_json decode = json_of(measurement.decode, roofs);
  if (options.json) {
    fmt::print("{}\n", ordered_json{{"isa", core::isa_name(cpu->kernels().isa)},
                                    {"threads", cpu->n_threads()},
                                    {"read_gb_per_s", roofs.bytes_per_s / 1e9},
                                    {"peak_multiply_adds_per_s", roofs.multiply_adds_per_s},
                                    {"prompt", prompt},
                                    {"decode", decode}}
                           .dump());
  } else {
    fmt::print("{}; memory read bandwidth {:.1f} GB/s; peak of F32 products in cache {:.1f} G multiply-adds/s\n",
               machine.describe(), roofs.bytes_per_s / 1e9, roofs.multiply_adds_per_s / 1e9);
    const int64_t batch = options.batch.front();
    print(fmt::format("Prefill of {} tokens", options.prompt_tokens).c_str(), prompt);
    print(fmt::format("Decode of {} sequence{}", batch, batch == 1 ? "" : "s").c_str(), decode);
  }
  if (!options.trace.empty()) measurement.write_trace();  // last, so that the tables are printed even if writing fails
}

}  // namespace folio::apps
