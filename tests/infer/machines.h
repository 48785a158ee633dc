// Lists the kinds of machines that tests of the engine run on: every such test runs on each of cpu_kinds() or
// machine_kinds(), so a new kind needs only an entry here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/engine.h"
#include "infer/forward/pass_through.h"
#include "infer/ranks/local.h"
#include "tests/infer/support.h"

namespace folio::infer::test {

/// A stage that records operations when they are issued, and executes a step only when one of its results is awaited. A
/// step of a known shape is replayed from its recording. This detects recordings that use host data of an earlier
/// step, and results that are read before they are awaited. The stage draws tokens with its own samplers and feeds them
/// to the next step, unless several steps may be in flight.
class RecordingStage final : public PassThroughStage {
 public:
  explicit RecordingStage(std::unique_ptr<Stage> inner, size_t n_in_flight = 1)
      : PassThroughStage(std::move(inner)), info_(PassThroughStage::info()), n_in_flight_(n_in_flight) {
    info_.steps_in_flight = n_in_flight;
    info_.draws = n_in_flight == 1;
  }

  [[nodiscard]] const StageInfo& info() const override { return info_; }

  bool begin(const Step& step) override {
    OwnStep& own = steps_.emplace_back();
    own.number = ++n_begun_;
    own.rows.assign(step.rows.begin(), step.rows.end());
    own.tables.assign(step.tables.begin(), step.tables.end());
    own.table_starts.assign(step.table_starts.begin(), step.table_starts.end());
    own.copies.assign(step.copies.begin(), step.copies.end());
    own.n_logit_rows = step.n_logit_rows;
    own.observed = step.observed;
    own.residual.assign(step.residual.begin(), step.residual.end());
    own.keeps_hidden = step.keeps_hidden;
    for (const Draw& d : step.draws) {
      const auto never = d.sampler->never();
      own.draws.push_back({.row = d.row,
                           .sampler = {d.sampler->options(), {never.begin(), never.end()}},
                           .history = {d.history.begin(), d.history.end()},
                           .position = d.position});
    }
    shape_ = {step.rows.size(), step.n_logit_rows, step.table_starts.size(), step.draws.size(), step.keeps_hidden};
    const auto recorded = recorded_.find(shape_);
    open_ = step.observed || !step.may_replay || recorded == recorded_.end();
    if (open_) return false;
    own.operations = recorded->second;
    ++n_replayed;
    return true;
  }
  void issue(const Operation& operation) override {
    core::require(open_, "an operation is issued outside of a step");
    step().operations.push_back(operation);
    ++n_issued;
  }
  void end() override {
    if (!step().observed) recorded_[shape_] = step().operations;
    open_ = false;
  }
  void unload_adapter(int32_t number) override {
    catch_up(n_begun_);
    inner().unload_adapter(number);
  }

  Ticket fetch_tokens() override {
    core::require(!open_, "tokens are fetched before the step's operations have ended");
    return Ticket{n_begun_};
  }
  std::span<const int32_t> wait_tokens(Ticket ticket) override {
    const auto number = static_cast<uint64_t>(ticket);
    core::require(n_begun_ - number < 2, "tokens are waited for when two more steps have been begun");
    catch_up(number);
    return fetched_[number % 2];
  }

  Ticket fetch_logits() override {
    core::require(!open_, "logits are fetched before the step's operations have ended");
    ++n_fetched;
    return Ticket{n_begun_};
  }
  std::span<float> wait(Ticket ticket) override {
    const auto number = static_cast<uint64_t>(ticket);
    core::require(n_begun_ - number < n_in_flight_, "logits are waited for when too many steps have been begun");
    core::require(number > n_waited_, "logits are waited for out of order");
    most_in_flight = std::max(most_in_flight, n_begun_ - n_waited_);
    n_waited_ = number;
    catch_up(number);
    logits_.erase(logits_.begin(), logits_.find(number));
    return logits_.at(number);
  }
  void read(Slot slot, std::span<float> values) override {
    core::require(step().observed || (!open_ && (slot == Slot::Residual || slot == Slot::Hidden)),
                  "a slot is read within a step without an observer");
    catch_up(n_begun_);
    inner().read(slot, values);
  }
  void write(Slot slot, std::span<const float> values) override { inner().write(slot, values); }

  int n_issued = 0;
  int n_replayed = 0;
  int n_fetched = 0;  ///< number of calls that fetched logits
  uint64_t most_in_flight = 0;

 private:
  /// Steps of equal shape replay one recording: number of rows, rows with logits, sequences, draws; Step::keeps_hidden.
  using Shape = std::tuple<size_t, size_t, size_t, size_t, bool>;
  struct OwnDraw {
    size_t row;
    Sampler sampler;
    std::vector<int32_t> history;
    int64_t position;
  };
  struct OwnStep {
    uint64_t number = 0;
    std::vector<StepRow> rows;
    std::vector<BlockId> tables;
    std::vector<int32_t> table_starts;
    std::vector<BlockCopy> copies;
    size_t n_logit_rows = 0;
    bool observed = false;
    std::vector<OwnDraw> draws;
    std::vector<float> residual;
    bool keeps_hidden = false;
    bool begun = false;                 ///< true if the inner stage's step has begun
    std::vector<Operation> operations;  ///< issued, but not yet executed
  };

  [[nodiscard]] OwnStep& step() { return steps_.back(); }
  // Executes the recorded operations of the steps up to `number`. Keeps the last step, which may get more operations.
  void catch_up(uint64_t number) {
    while (!steps_.empty() && steps_.front().number <= number) {
      do_step(steps_.front());
      if (steps_.size() == 1) return;
      steps_.pop_front();
    }
  }
  void do_step(OwnStep& step) {
    if (!std::exchange(step.begun, true)) {
      for (StepRow& row : step.rows) {
        if (row.token < 0) row.token = std::max(drawn_.at(static_cast<size_t>(-1 - row.token)), 0);
      }
      drawn_.clear();
      static_cast<void>(inner().begin({.rows = step.rows,
                                       .tables = step.tables,
                                       .table_starts = step.table_starts,
                                       .copies = step.copies,
                                       .n_logit_rows = step.n_logit_rows,
                                       .draws = {},
                                       .observed = step.observed,
                                       .residual = step.residual,
                                       .keeps_hidden = step.keeps_hidden}));
    }
    for (const Operation& operation : std::exchange(step.operations, {})) {
      std::holds_alternative<DrawTokens>(operation) ? draw(step) : inner().issue(operation);
    }
    fetched_[step.number % 2] = drawn_;
    if (step.n_logit_rows == 0) return;
    const std::span<const float> logits = all_logits();
    logits_[step.number].assign(logits.begin(), logits.end());
  }
  [[nodiscard]] std::span<const float> all_logits() { return inner().wait(inner().fetch_logits()); }
  void draw(OwnStep& step) {
    const std::span<const float> logits = all_logits();
    drawn_.clear();
    for (OwnDraw& d : step.draws) {
      const auto row = logits.subspan(d.row * width(Slot::Logits), width(Slot::Logits));
      std::vector<float> scratch(row.begin(), row.end());
      drawn_.push_back(d.sampler.draw(scratch, d.history, d.position));
    }
  }

  StageInfo info_;
  size_t n_in_flight_;
  uint64_t n_waited_ = 0;
  std::deque<OwnStep> steps_;  ///< begun, but not yet executed
  uint64_t n_begun_ = 0;
  bool open_ = false;  ///< true between begin() and end()
  Shape shape_;
  std::map<Shape, std::vector<Operation>> recorded_;
  std::vector<int32_t> drawn_;  ///< tokens drawn in the last executed step, one per draw
  std::array<std::vector<int32_t>, 2> fetched_;
  std::map<uint64_t, std::vector<float>> logits_;  ///< logits of steps that were executed, but not yet awaited
};

/// A machine that forwards all calls to another, and whose stages are those that wrap(stage) returns.
class WrappedMachine : public Machine {
 public:
  using Wrap = std::function<std::unique_ptr<Stage>(std::unique_ptr<Stage>)>;

  WrappedMachine(std::unique_ptr<Machine> inner, Wrap wrap) : inner_(std::move(inner)), wrap_(std::move(wrap)) {}
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override {
    return wrap_(inner_->load(model, shard, cache_type));
  }

 private:
  std::unique_ptr<Machine> inner_;
  Wrap wrap_;
};

class RecordingMachine final : public WrappedMachine {
 public:
  explicit RecordingMachine(std::unique_ptr<Machine> inner, size_t n_in_flight = 1)
      : WrappedMachine(std::move(inner), [this, n_in_flight](std::unique_ptr<Stage> stage) {
          auto recording = std::make_unique<RecordingStage>(std::move(stage), n_in_flight);
          last_stage = recording.get();
          return recording;
        }) {}
  RecordingStage* last_stage = nullptr;  ///< the most recently loaded stage; null before the first load()
};

/// A kind of machine to test: its name, KV cache type and factory, and the model for tests that use only one.
struct MachineKind {
  std::string name;
  CacheType cache_type = CacheType::F32;
  std::function<std::vector<std::unique_ptr<Machine>>(const CpuOptions& options)> make;
  double roundoff = 0x1p-24;                           ///< relative error of a product of two floats
  core::ModelConfig model = small_shapes()[1].config;  ///< 2 layers, odd widths, a vocabulary of 37, 100 positions

  /// Returns `options` with the cache type of this kind.
  [[nodiscard]] CacheOptions with_type(CacheOptions options) const {
    options.type = cache_type;
    return options;
  }
};

inline std::string kind_name(const ::testing::TestParamInfo<MachineKind>& info) { return info.param.name; }

inline void PrintTo(const MachineKind& kind, std::ostream* out) { *out << kind.name; }

using Machines = std::vector<std::unique_ptr<Machine>>;

/// Returns kinds of CPU machines that cover all options: types of the KV cache, shards, stages, steps in flight.
inline std::vector<MachineKind> cpu_kinds() {
  const auto recorded = [](const CpuOptions& options) {
    return std::make_unique<RecordingMachine>(std::make_unique<Cpu>(options));
  };
  const auto in_flight = [](const CpuOptions& options) {
    return std::make_unique<RecordingMachine>(std::make_unique<Cpu>(options), 3);
  };
  const auto some = [](auto... make) {  // returns a function that makes one machine with each `make`
    return [=](const CpuOptions& options) {
      Machines machines;
      (machines.push_back(make(options)), ...);
      return machines;
    };
  };
  const auto cpu = [](const CpuOptions& options) { return std::make_unique<Cpu>(options); };
  core::ModelConfig latent = latent_shapes()[1].config;
  latent.vocab_size = small_shapes()[1].config.vocab_size;
  return {{"cpu", CacheType::F32, some(cpu)},
          {"cpu_f16", CacheType::F16, some(cpu)},
          {"cpu_q8_0", CacheType::Q8_0, some(cpu)},
          {"two_cpus", CacheType::F32, some(cpu, cpu)},
          {"two_shards", CacheType::F32,
           [](const CpuOptions& options) {
             Machines machines;
             machines.push_back(std::make_unique<ShardedCpu>(2, options, core::memory_nodes()));
             return machines;
           }},
          {"recorded", CacheType::F32, some(recorded)},
          {"three_in_flight", CacheType::F32, some(in_flight)},
          {"two_recorded_f16", CacheType::F16, some(recorded, recorded)},
          {"latent", CacheType::F32, some(cpu), 0x1p-24, latent},
          {"latent_recorded_q8_0", CacheType::Q8_0, some(recorded), 0x1p-24, latent}};
}

/// Returns the kinds of machines that this program tests: cpu_kinds(), and in test_infer_cuda also an emulated GPU.
std::vector<MachineKind> machine_kinds();

/// The machines of a kind, with an equal share of a model's layers on each.
class Rig {
 public:
  Rig(const MachineKind& kind, const core::ModelConfig& config, const CpuOptions& options)
      : machines_(kind.make(options)) {
    const auto n = static_cast<int64_t>(machines_.size());
    for (int64_t i = 0; i < n; ++i) {
      const LayerRange layers{config.n_layers * i / n, config.n_layers * (i + 1) / n};
      if (layers.first < layers.last) placements_.push_back({*machines_[static_cast<size_t>(i)], layers});
    }
  }
  [[nodiscard]] std::span<const Placement> placements() const { return placements_; }
  [[nodiscard]] Machine& machine(size_t index) { return *machines_[index]; }

 private:
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<Placement> placements_;
};

/// A runner of a model on the machines of a kind.
class RunnerOn : private Rig, public Runner {
 public:
  RunnerOn(const MachineKind& kind, const core::StoredModel& model, const CpuOptions& cpu = {.n_threads = 1},
           const CacheOptions& cache = {})
      : Rig(kind, model.config, cpu), Runner(model, placements(), kind.with_type(cache)) {}
  using Rig::machine;
};

/// Returns the logits of all rows of one sequence, computed on new machines.
inline std::vector<float> logits_on(const MachineKind& kind, const core::StoredModel& model,
                                    std::span<const int32_t> text, const CpuOptions& cpu = {.n_threads = 1},
                                    const Observer& observer = {}) {
  RunnerOn runner(kind, model, cpu);
  return run(runner, rows_of(runner.cache().add_sequence(), text), observer);
}

class EngineOn : private Rig, public Engine {
 public:
  EngineOn(const MachineKind& kind, const core::StoredModel& model, const CpuOptions& cpu = {.n_threads = 1},
           const CacheOptions& cache = {}, const SchedulerLimits& limits = {})
      : Rig(kind, model.config, cpu), Engine(model, placements(), kind.with_type(cache), limits) {}
  using Rig::machine;
};

/// Returns a request that samples up to max_tokens tokens from the model's distribution.
inline Request drawing(std::vector<int32_t> prompt, int64_t max_tokens, uint64_t seed = 1) {
  return {.prompt = std::move(prompt),
          .options = {.max_tokens = max_tokens, .sampler = {.temperature = 1.0F, .top_p = 1.0F, .seed = seed}}};
}

/// Runs a request to its end, together with the engine's other requests. Returns the results of its choices.
inline std::vector<GenerateResult> results_of(Engine& engine, const Request& request) {
  const RequestId id = engine.add(request);
  while (engine.step()) continue;
  return engine.take_all(id);
}

/// Steps until all requests have ended. Returns the number of steps that threw a std::runtime_error.
inline int step_to_the_end(Engine& engine) {
  int thrown = 0;
  for (bool more = true; more;) {
    try {
      more = engine.step();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  return thrown;
}

/// Returns the tokens that the host draws from logits computed row by row. Passes the prompt's logits to r.on_logits.
inline std::vector<int32_t> drawn_by_host(const MachineKind& kind, const core::StoredModel& model, const Request& r) {
  RunnerOn runner(kind, model);
  const SequenceId sequence = runner.cache().add_sequence();
  Sampler sampler(r.options.sampler, r.tokenizer == nullptr ? std::vector<int32_t>{} : r.tokenizer->suppressed_tokens(),
                  r.prompt.size());
  std::vector<int32_t> text = r.prompt;
  std::vector<float> logits = run(runner, rows_of(sequence, text));
  if (r.on_logits) r.on_logits(logits);
  for (int64_t i = 0; i < r.options.max_tokens; ++i) {
    if (i > 0) logits = run(runner, rows_of(sequence, std::span(text).last(1), static_cast<int64_t>(text.size()) - 1));
    const auto row = std::span(logits).last(static_cast<size_t>(model.config.vocab_size));
    text.push_back(sampler.sample(row, text, static_cast<int64_t>(text.size())));
  }
  return {text.end() - r.options.max_tokens, text.end()};
}

}  // namespace folio::infer::test
