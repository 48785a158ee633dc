// cuda_bench: times attention, and whole steps of models with random weights, on a GPU. Compares their memory bandwidth
// with that of a device-to-device copy. Prints tables; --json also appends each row to a file.
#include <functional>
#include <map>

#include "apps/cuda_bench/bench.h"
#include "apps/program.h"
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

int run(const bench::Options& o) {
  Stream stream(o.device);
  bench::Results results(o.json);
  const DeviceInfo device = device_info(o.device);
  static_cast<void>(copy_bandwidth(o.device, o.effort.copy_bytes));  // warm-up: an idle GPU raises its clocks slowly
  const double bandwidth = copy_bandwidth(o.device, o.effort.copy_bytes);
  results.add({{"part", "device"},
               {"name", device.name},
               {"driver", device.driver_version},
               {"multiprocessors", device.n_multiprocessors},
               {"copy_gb_per_s", bandwidth / 1e9}});
  const bench::Bench all{.options = o, .stream = stream, .bandwidth = bandwidth, .results = results};
  for (const std::string& part : o.parts) {
    for (const std::string& shape : o.shapes) parts().at(part)(all, shape);
  }
  return 0;
}

void add_options(apps::Flags& app, bench::Options& o) {
  const auto add = [&](const char* flag, auto& values, const char* help) {
    return app.add_option(flag, values, help)->delimiter(',');
  };
  std::vector<std::string> names;
  for (const auto& [name, part] : parts()) names.push_back(name);
  app.add_option("parts", o.parts, "measurements: attention, decode, prompt")->required()->one_of(names);
  constexpr double kMost = 1 << 30;
  add("--shapes", o.shapes, "model shapes: 8b, 1.1b, tiny");
  add("--types", o.types, "weight types for decode and prompt: f32, f16, bf16, q8_0, q4_0");
  add("--contexts", o.contexts, "context lengths for decoding a sequence")->in_range(1, kMost);
  add("--batches", o.batches, "numbers of sequences for batched decoding")->in_range(1, kMost);
  app.add_option("--batch-context", o.batch_context, "context length for batched decoding")->in_range(1, kMost);
  app.add_option("--tokens", o.tokens, "tokens to decode per repetition")->in_range(1, kMost);
  app.add_option("--prompt", o.prompt, "prompt length")->in_range(1, kMost);
  app.add_option("--attention", o.attention, "prompt length for attention")->in_range(1, kMost);
  app.add_flag("--f32-cache", o.f32_cache, "KV cache in F32 (default: F16)");
  app.add_option("--device", o.device, "GPU index")->in_range(0, 1023);
  app.add_option("--json FILE", o.json, "file to append each row to, as a line of JSON");
  app.add_option("--repetitions", o.effort.repetitions, "number of repetitions")->in_range(1, 1000);
  app.add_option("--milliseconds", o.effort.milliseconds, "time per repetition")->in_range(0, 1e4);
  app.add_option("--spread-bytes", o.effort.spread_bytes, "bytes that launches read before they repeat");
  app.add_option("--copy-bytes", o.effort.copy_bytes, "bytes of the copy that measures the bandwidth");
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Time attention and whole steps of models with random weights on a GPU.", "cuda_bench");
  bench::Options options;
  add_options(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(options); });
}
