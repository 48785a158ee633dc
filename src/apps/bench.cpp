// bench: measures prefill and decode speed, the share of memory bandwidth that decoding reaches, and the speed of
// structured output.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "apps/bench_memory.h"
#include "apps/bench_step.h"
#include "apps/ranks.h"
#include "apps/text_program.h"
#include "core/error.h"
#include "infer/cuda/copy_bandwidth.h"

namespace {

using namespace folio;

using Options = apps::BenchOptions;

struct Speeds {
  double prefill;  ///< prompt tokens/s
  double decode;   ///< output tokens/s of all sequences together
};

// Times a batch: the seconds until every sequence has its first token, and the tokens/s from then until the first
// sequence ends.
class BatchTimer {
 public:
  explicit BatchTimer(size_t n_sequences) : n_silent_(n_sequences), lengths_(n_sequences) {}
  void token(size_t sequence) {
    if (lengths_[sequence]++ == 0) {
      if (--n_silent_ == 0) all_speak_ = Clock::now();
    } else if (n_silent_ == 0) {
      ++n_tokens_;
    }
  }
  /// Must be called after each step. Stops counting tokens after the first step in which a sequence ended.
  void step(bool one_has_ended) {
    if (counted_ || !one_has_ended) return;
    counted_ = n_tokens_;
    end_ = Clock::now();
  }
  [[nodiscard]] double seconds_to_first() const { return seconds(start_, all_speak_); }
  [[nodiscard]] double tokens_per_s() const {
    core::require(
        *counted_ > 0,
        "a sequence ended before all decoded; use more --gen-tokens, fewer --prompt-tokens or a smaller --batch");
    return static_cast<double>(*counted_) / seconds(all_speak_, end_);
  }
  [[nodiscard]] size_t length(size_t sequence) const { return lengths_[sequence]; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }
  size_t n_silent_;
  std::vector<size_t> lengths_;
  size_t n_tokens_ = 0;
  std::optional<size_t> counted_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point all_speak_{};
  Clock::time_point end_{};
};

BatchTimer timed(infer::Engine& engine, std::span<infer::Request> requests) {
  infer::ScopedRequests running(engine);
  BatchTimer timer(requests.size());
  bool one_has_ended = false;
  for (size_t b = 0; b < requests.size(); ++b) {
    requests[b].on_token = [&timer, b](size_t, int32_t, std::span<const float>) { timer.token(b); };
    requests[b].on_end = [&](size_t, const infer::GenerateResult&) { one_has_ended = true; };
    running.add(requests[b]);
  }
  for (bool more = true; more; timer.step(one_has_ended)) more = engine.step();
  return timer;
}

// Measures prefill with new prompts, then decoding with the same prompts, which are cached by then. Short warm-up
// repetitions come first, so that the thread pool adapts to the load of other processes.
Speeds measure(infer::Engine& engine, const Options& o, int64_t batch) {
  constexpr double kWarmUpSeconds = 0.5;
  constexpr int64_t kWarmUpTokens = 16;
  const auto repeat = [&](int repetition, int64_t prompt_tokens, int64_t gen_tokens) {
    std::vector<infer::Request> requests =
        apps::random_requests(engine.config(), o.sampler, batch, repetition, prompt_tokens);
    const auto run = [&](int64_t n_tokens) {
      for (infer::Request& request : requests) request.options.max_tokens = n_tokens;
      return timed(engine, requests);
    };
    const BatchTimer prefill = run(1);
    return std::pair(prefill, run(gen_tokens + 1));
  };
  using Clock = std::chrono::steady_clock;
  for (const auto start = Clock::now(); Clock::now() - start < std::chrono::duration<double>(kWarmUpSeconds);)
    repeat(0, std::min(o.prompt_tokens, kWarmUpTokens), std::min(o.gen_tokens, kWarmUpTokens));
  std::vector<double> prefill, decode;
  for (int repetition = 1; repetition <= o.repetitions; ++repetition) {
    const auto [first, all] = repeat(repetition, o.prompt_tokens, o.gen_tokens);
    prefill.push_back(static_cast<double>(batch * o.prompt_tokens) / first.seconds_to_first());
    decode.push_back(all.tokens_per_s());
  }
  return {apps::median(prefill), apps::median(decode)};
}

struct FormSpeeds {
  double decode;  ///< output tokens/s of all sequences together, with schemas
  double free;    ///< tokens/s for outputs of the same lengths without schemas
  double share;   ///< median of decode / free over the repetitions
};

// Measures decoding with one schema per sequence and without schemas. Schemas are compiled anew for each run, and each
// repetition assigns them to the sequences in a different order. In odd repetitions, the measured run without schemas
// precedes the one with schemas.
FormSpeeds measure_forms(infer::Engine& engine, const Options& o, int64_t batch, const data::Tokenizer& tokenizer,
                         const std::vector<apps::FileLine>& schemas) {
  const auto tokens = std::make_shared<infer::forms::TokenTree>(tokenizer);
  std::vector<double> decode, free, share;
  for (int repetition = 0; repetition <= o.repetitions; ++repetition) {
    std::vector<infer::Request> with_form =
        apps::random_requests(engine.config(), o.sampler, batch, repetition, o.prompt_tokens);
    std::vector<infer::Request> without = with_form;
    for (size_t b = 0; b < with_form.size(); ++b) {
      with_form[b].tokenizer = &tokenizer;
      with_form[b].options.max_tokens = o.gen_tokens + 1;
    }
    const auto run_with_form = [&] {
      for (size_t b = 0; b < with_form.size(); ++b) {
        const auto& [text, where] = schemas[(b + static_cast<size_t>(repetition)) % schemas.size()];
        try {
          with_form[b].options.form =
              infer::forms::make_form({.kind = infer::forms::FormOptions::Kind::JsonSchema, .text = text}, tokens);
        } catch (const core::Error& error) {
          core::fail("{}{}", where, error.what());
        }
      }
      return timed(engine, with_form);
    };
    BatchTimer timer = run_with_form();
    for (size_t b = 0; b < without.size(); ++b) {
      without[b].options.max_tokens = static_cast<int64_t>(timer.length(b));
    }
    free.push_back(timed(engine, without).tokens_per_s());
    if (repetition % 2 == 1) timer = run_with_form();  // in odd repetitions, reports this run, not the one above
    decode.push_back(timer.tokens_per_s());
    share.push_back(decode.back() / free.back());
  }
  for (auto* all : {&decode, &free, &share}) all->erase(all->begin());
  return {apps::median(decode), apps::median(free), apps::median(share)};
}

/// The hardware that runs a model, and its memory bandwidth (unset if the model is split between CPU and GPU, or
/// between ranks).
struct MemorySpeed {
  nlohmann::ordered_json machines;  ///< fields of the output of --json
  std::string description;          ///< line printed without --json
  std::optional<double> bytes_per_s{};
  const char* key = nullptr;  ///< name of the bandwidth's field in the output of --json, if bytes_per_s is set
};

MemorySpeed measure_memory(const infer::Machines& machines, const infer::MachineOptions& options) {
  MemorySpeed memory;
  if (machines.gpu != nullptr) memory.machines["device"] = machines.gpu->describe();
  if (machines.cpu != nullptr) {
    memory.machines["isa"] = core::isa_name(machines.cpu->kernels().isa);
    memory.machines["threads"] = machines.n_threads;
    if (machines.n_shards > 1) memory.machines["shards"] = machines.n_shards;
  }
  if (machines.gpu == nullptr) {
    memory.bytes_per_s = apps::read_bandwidth(machines.n_threads);
    memory.key = "read_gb_per_s";
    memory.description = fmt::format("{}, memory read bandwidth {:.1f} GB/s",
                                     machines.placements.front().machine.describe(), *memory.bytes_per_s / 1e9);
  } else if (machines.cpu == nullptr) {
    memory.bytes_per_s = infer::gpu::copy_bandwidth(*options.gpu);
    memory.key = "copy_gb_per_s";
    memory.description =
        fmt::format("{}, memory copy bandwidth {:.1f} GB/s", machines.gpu->describe(), *memory.bytes_per_s / 1e9);
  } else {
    memory.description = machines.describe();
  }
  return memory;
}

// Throws core::UsageError if a flag was given that --memory does not use.
void check_memory_flags(const apps::Flags& app) {
  for (const std::string& flag : app.given()) {
    if (flag == "--memory" || flag == "--threads" || flag == "--json") continue;
    throw core::UsageError(fmt::format("{} has no effect with --memory, which runs no model; leave one out", flag));
  }
}

// Prints the read bandwidth of each access pattern. With --json, prints only the result of read_bandwidth().
int bench_memory(const apps::Flags& app, const Options& o) {
  check_memory_flags(app);
  const size_t n_threads = o.model.load.machines.n_threads;
  const size_t threads = n_threads == 0 ? core::default_threads() : n_threads;
  if (o.json) {
    const double gb_per_s = apps::read_bandwidth(threads) / 1e9;
    fmt::print("{}\n", nlohmann::ordered_json{{"threads", threads}, {"read_gb_per_s", gb_per_s}}.dump());
  } else {
    apps::print_memory_table(threads);
  }
  return 0;
}

int bench_schemas(infer::LoadedModel& model, const Options& o) {
  const std::vector<apps::FileLine> schemas = apps::lines_of(o.schemas, "schemas");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int64_t batch : o.batch) {
    const FormSpeeds speeds = measure_forms(model.engine(), o, batch, model.tokenizer(), schemas);
    rows.push_back({{"batch", batch},
                    {"decode_tokens_per_s", speeds.decode},
                    {"free_tokens_per_s", speeds.free},
                    {"share", speeds.share}});
    if (!o.json) {
      fmt::print("batch {:3}: decode {:9.1f} tokens/s with schemas, {:9.1f} without, ratio {:.3f}\n", batch,
                 speeds.decode, speeds.free, speeds.share);
    }
  }
  if (o.json) fmt::print("{}\n", nlohmann::ordered_json{{"batches", rows}}.dump());
  return 0;
}

// Measures a batch, prints a line about it unless --json is given, and returns its fields in the output of --json.
nlohmann::ordered_json bench_batch(infer::LoadedModel& model, const Options& o, int64_t batch, const apps::Ranks& ranks,
                                   const MemorySpeed& memory) {
  const Speeds speeds = measure(model.engine(), o, batch);
  const apps::StepReads reads = apps::step_reads(model.engine().runner(), batch);
  const double bytes_per_s = speeds.decode / static_cast<double>(batch) * reads.bytes;
  nlohmann::ordered_json row = {{"batch", batch},
                                {"prefill_tokens_per_s", speeds.prefill},
                                {"decode_tokens_per_s", speeds.decode},
                                {"step_bytes", std::llround(reads.bytes)},
                                {"decode_gb_per_s", bytes_per_s / 1e9},
                                {"bandwidth_share", nullptr}};
  if (ranks.machine() != nullptr) row["exchanged_bytes"] = ranks.exchanged_bytes(model.file(), batch);
  std::string share;
  if (reads.experts > 0) {
    row["experts_of_a_layer"] = reads.experts;
    share = fmt::format(" ({:.1f} of {} experts per layer)", reads.experts, model.engine().config().n_experts);
  }
  if (memory.bytes_per_s) {
    row["bandwidth_share"] = bytes_per_s / *memory.bytes_per_s;
    share += fmt::format(", {:.0f}% of memory bandwidth", 100.0 * bytes_per_s / *memory.bytes_per_s);
  }
  if (!o.json) {
    fmt::print("batch {:3}: prefill {:9.1f} tokens/s, decode {:9.1f} tokens/s, weights read at {:.1f} GB/s{}\n", batch,
               speeds.prefill, speeds.decode, bytes_per_s / 1e9, share);
  }
  return row;
}

int bench_batches(infer::LoadedModel& model, const Options& o, const apps::Ranks& ranks, const MemorySpeed& memory) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int64_t batch : o.batch) rows.push_back(bench_batch(model, o, batch, ranks, memory));
  const infer::LoadReport& loaded = model.engine().runner().load_report();
  if (!o.json) {
    fmt::print("{}, weights {:.1f} MB{}\n", memory.description, static_cast<double>(loaded.weight_bytes) / 1e6,
               memory.bytes_per_s ? " (above 100%: the weights stay in cache)" : "");
    return 0;
  }
  nlohmann::ordered_json json = memory.machines;
  if (ranks.machine() != nullptr) {
    json["ranks"] = ranks.machine()->world().n_ranks;
    json["pipeline_stages"] = ranks.machine()->n_stages();
  }
  json["prefill_tokens_per_s"] = rows[0]["prefill_tokens_per_s"];
  json["decode_tokens_per_s"] = rows[0]["decode_tokens_per_s"];
  json["weight_bytes"] = loaded.weight_bytes;
  json["step_bytes"] = rows[0]["step_bytes"];
  json["repack_seconds"] = loaded.repack_seconds;
  if (memory.bytes_per_s) json[memory.key] = *memory.bytes_per_s / 1e9;
  json["bandwidth_share"] = rows[0]["bandwidth_share"];
  json["batches"] = rows;
  fmt::print("{}\n", json.dump());
  return 0;
}

int run(const apps::Flags& app, const Options& o) {
  if (o.train) throw core::UsageError("--train must be the first flag");
  if (o.memory) return bench_memory(app, o);
  const int64_t positions = o.prompt_tokens + o.gen_tokens;
  const int64_t most = *std::max_element(o.batch.begin(), o.batch.end());
  apps::ModelFlags flags = o.model;
  flags.load.limits.max_sequences = static_cast<size_t>(most);
  flags.load.cache_positions =  // rounded up to whole blocks per sequence
      most * infer::blocks_for(positions) * infer::kBlockPositions;
  apps::Ranks ranks(app, flags);
  infer::LoadedModel model = ranks.open(flags);
  if (ranks.follow(model)) return 0;
  if (positions > model.context()) {
    throw core::UsageError(fmt::format("--prompt-tokens {} and --gen-tokens {} exceed the context of {}; lower one",
                                       o.prompt_tokens, o.gen_tokens, model.context()));
  }
  MemorySpeed memory = measure_memory(model.machines(), flags.load.machines);  // before weights fill a GPU's memory
  if (ranks.machine() != nullptr) memory.bytes_per_s.reset();                  // the weights are read by all ranks
  if (o.ops) {
    apps::bench_ops(model, o, memory.bytes_per_s.value_or(1.0));
    return 0;
  }
  apps::report_repacking(model);
  apps::require_rows(model.engine().runner(), most);
  return o.schemas.empty() ? bench_batches(model, o, ranks, memory) : bench_schemas(model, o);
}

// Runs `train tinyshakespeare --profile FLAGS` for `bench --train FLAGS`, because bench is built without LibTorch.
int bench_training(int argc, char** argv) {
  const std::string train = std::filesystem::read_symlink("/proc/self/exe").replace_filename("train");
  std::string program = "train", dataset = "tinyshakespeare", profile = "--profile";
  std::vector<char*> arguments{program.data(), dataset.data(), profile.data()};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  arguments.push_back(nullptr);
  ::execv(train.c_str(), arguments.data());
  core::fail("{}: cannot start: {}; build train, which needs LibTorch", train, std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app(
      "Measure prefill and decode speed, including sampling. Results are medians of the repetitions, after a warm-up.",
      "bench");
  if (argc > 1 && std::string_view(argv[1]) == "--train") {
    return apps::run_program(app, 1, argv, [&] { return bench_training(argc, argv); });
  }
  Options o;
  app.default_group("General");
  app.group("Benchmark");
  app.add_option("--prompt-tokens", o.prompt_tokens, "prompt length in tokens")->in_range(1, 1e6);
  app.add_option("--gen-tokens", o.gen_tokens, "number of tokens to decode per sequence")->in_range(1, 1e6);
  app.add_option("--batch", o.batch, "number of sequences; a list such as 1,8,64 measures each")
      ->delimiter(',')
      ->in_range(1, 4096);
  app.add_option("--repetitions", o.repetitions, "number of repetitions")->in_range(1, 1000);
  app.add_flag("--json", o.json, "print one JSON object to stdout and nothing else");
  app.group("Other measurements");
  app.add_option("--json-schemas FILE", o.schemas,
                 "decode speed with JSON schemas, one per line of the file, compared with unconstrained decoding");
  app.add_flag("--ops", o.ops, "time per kind of operation, in prefill and decode");
  app.add_option("--trace FILE", o.trace, "write a timeline of operations and scheduling for Perfetto")->needs("--ops");
  app.add_flag("--memory", o.memory, "memory read bandwidth of --threads by access pattern; needs no model")
      ->excludes("--json-schemas")
      ->excludes("--ops");
  app.add_flag("--train", o.train, "profile a training step; must be the first flag, followed by flags of train");
  apps::add_model_flags(app, o.model);
  apps::add_rank_flags(app, o.model);
  app.group("Sampling");
  apps::add_sampler_flags(app, o.sampler);
  return apps::run_program(app, argc, argv, [&] { return run(app, o); });
}
