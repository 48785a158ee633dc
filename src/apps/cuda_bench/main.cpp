// cuda_bench: times attention, and whole steps of models with random weights, on a GPU. Compares their memory bandwidth
// with that of a device-to-device copy. Prints tables; --json also appends each row to a file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>

#include "apps/cuda_bench/bench.h"
#include "core/error.h"
#include "infer/cuda/copy_bandwidth.h"

namespace {

using namespace folio;
using namespace folio::infer::gpu;

using Part = std::function<void(const bench::Bench&, const std::string&)>;

const std::map<std::string, Part>& parts() {
  static const std::map<std::string, Part> all{
      {"attention", bench::time_attention}, {"decode", bench::time_decoding}, {"prompt", bench::time_prompt}};
  return all;
}

void run(const bench::Options& o) {
  Stream stream(o.device);
  bench::Results results(o.json);
  const DeviceInfo device = device_info(o.device);
  static_cast<void>(copy_bandwidth(stream, o.effort.copy_bytes));  // warm-up: an idle GPU raises its clocks slowly
  const double bandwidth = copy_bandwidth(stream, o.effort.copy_bytes);
  results.add({{"part", "device"},
               {"name", device.name},
               {"driver", device.driver_version},
               {"multiprocessors", device.n_multiprocessors},
               {"copy_gb_per_s", bandwidth / 1e9}});
  const bench::Bench all{.options = o, .stream = stream, .bandwidth = bandwidth, .results = results};
  for (const std::string& part : o.parts) {
    for (const std::string& shape : o.shapes) parts().at(part)(all, shape);
  }
}

void add_options(CLI::App& app, bench::Options& o) {
  const auto many = [](CLI::Option* option) { return option->delimiter(',')->capture_default_str(); };
  std::vector<std::string> names;
  for (const auto& [name, part] : parts()) names.push_back(name);
  app.add_option("parts", o.parts, "measurements: attention, decode, prompt")->required()->check(CLI::IsMember(names));
  const CLI::Range positive(1, 1 << 30);
  many(app.add_option("--shapes", o.shapes, "model shapes: 8b, 1.1b, tiny"));
  many(app.add_option("--types", o.types, "weight types for decode and prompt: f32, f16, bf16, q8_0, q4_0"));
  many(app.add_option("--contexts", o.contexts, "context lengths for decoding a sequence"))->check(positive);
  many(app.add_option("--batches", o.batches, "numbers of sequences for batched decoding"))->check(positive);
  many(app.add_option("--batch-context", o.batch_context, "context length for batched decoding"))->check(positive);
  many(app.add_option("--tokens", o.tokens, "tokens to decode per repetition"))->check(positive);
  many(app.add_option("--prompt", o.prompt, "prompt length"))->check(positive);
  many(app.add_option("--attention", o.attention, "prompt length for attention"))->check(positive);
  app.add_flag("--f32-cache", o.f32_cache, "KV cache in F32 (default: F16)");
  app.add_option("--device", o.device, "GPU index")->check(CLI::Range(0, 1023));
  app.add_option("--json", o.json, "file to append each row to, as a line of JSON");
  many(app.add_option("--repetitions", o.effort.repetitions, "number of repetitions"))->check(CLI::Range(1, 1000));
  many(app.add_option("--milliseconds", o.effort.milliseconds, "time per repetition"))->check(CLI::Range(0.0, 1e4));
  many(app.add_option("--spread-bytes", o.effort.spread_bytes, "bytes that launches read before they repeat"));
  many(app.add_option("--copy-bytes", o.effort.copy_bytes, "bytes of the copy that measures the bandwidth"));
}

int complain(const std::string& message, int code) {
  fmt::print(stderr, "cuda_bench: {}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Time attention and whole steps of models with random weights on a GPU.", "cuda_bench");
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
