// cuda_bench: times the kernels of infer/cuda, alone and in whole steps of a model with random weights, against the
// bandwidth of a copy and against cuBLAS. Its rows are a table, and JSON objects with --json.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "apps/cuda_bench/bench.h"
#include "infer/cuda/copy_bandwidth.h"

namespace {

using namespace folio;
using namespace folio::infer::gpu;

using Part = std::function<void(const bench::Bench&, const std::string&)>;

const std::map<std::string, Part>& parts() {
  static const std::map<std::string, Part> all{{"attention", bench::time_attention},
                                               {"decode", bench::time_decoding},
                                               {"kernels", bench::time_kernels},
                                               {"prompt", bench::time_prompt}};
  return all;
}

void run(const bench::Options& o) {
  Stream stream(o.device);
  bench::Results results(o.json);
  const DeviceInfo device = device_info(o.device);
  static_cast<void>(copy_bandwidth(stream, o.effort.copy_bytes));  // an idle GPU needs a while to raise its clocks
  const double bandwidth = copy_bandwidth(stream, o.effort.copy_bytes);
  std::string why;
  const auto cublas = bench::Cublas::open(o.cublas, stream, why);
  results.add({{"part", "device"},
               {"name", device.name},
               {"driver", device.driver_version},
               {"multiprocessors", device.n_multiprocessors},
               {"copy_gb_per_s", bandwidth / 1e9}});
  if (cublas == nullptr) results.note("cuBLAS: " + why);
  const bench::Bench all{
      .options = o, .stream = stream, .bandwidth = bandwidth, .cublas = cublas.get(), .results = results};
  for (const std::string& part : o.parts) {
    for (const std::string& shape : o.shapes) parts().at(part)(all, shape);
  }
}

void add_options(CLI::App& app, bench::Options& o) {
  const auto many = [](CLI::Option* option) { return option->delimiter(',')->capture_default_str(); };
  std::vector<std::string> names;
  for (const auto& [name, part] : parts()) names.push_back(name);
  app.add_option("parts", o.parts, "what to time: kernels, attention, decode, prompt")
      ->required()
      ->check(CLI::IsMember(names));
  const CLI::Range positive(1, 1 << 30);
  many(app.add_option("--shapes", o.shapes, "8b, 1.1b, tiny"));
  many(app.add_option("--types", o.types, "of the weights of whole models: f32, f16, bf16, q8_0, q4_0"));
  many(app.add_option("--rows", o.rows, "of the kernels"))->check(positive);
  many(app.add_option("--contexts", o.contexts, "positions of a sequence that decodes alone"))->check(positive);
  many(app.add_option("--batches", o.batches, "sequences that decode together"))->check(positive);
  many(app.add_option("--batch-context", o.batch_context, "positions of each of them"))->check(positive);
  many(app.add_option("--tokens", o.tokens, "that are decoded and timed together"))->check(positive);
  many(app.add_option("--prompt", o.prompt, "rows of a prompt"))->check(positive);
  many(app.add_option("--attention", o.attention, "rows of a prompt, for attention alone"))->check(positive);
  app.add_flag("--f32-cache", o.f32_cache, "keys and values in F32 (default: F16)");
  app.add_flag("--trace", o.trace, "the time of each kernel in a decoding step, with CUPTI");
  app.add_option("--device", o.device, "which GPU")->check(CLI::Range(0, 1023));
  app.add_option("--cublas", o.cublas, "the library (default: where the loader finds it)");
  app.add_option("--json", o.json, "a file to which each row is appended as a line");
  many(app.add_option("--repetitions", o.effort.repetitions))->check(CLI::Range(1, 1000));
  many(app.add_option("--milliseconds", o.effort.milliseconds, "of a repetition"))->check(CLI::Range(0.0, 1e4));
  many(app.add_option("--spread-bytes", o.effort.spread_bytes, "of weights and cache, before the same are read again"));
  many(app.add_option("--copy-bytes", o.effort.copy_bytes, "of the copy that gives the bandwidth"));
}

int complain(const std::string& message, int code) {
  fmt::print(stderr, "cuda_bench: {}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the kernels for GPUs, alone and in whole steps of a model with random weights.", "cuda_bench");
  bench::Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    run(options);
    return 0;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), 2);
  } catch (const core::UsageError& error) {
    return complain(error.what(), 2);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}
