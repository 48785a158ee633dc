#include "apps/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "apps/program.h"
#include "core/error.h"
#include "core/number.h"
#include "core/print_stderr.h"
#include "infer/cuda/cuda.h"
#include "infer/reference/kernels.h"

namespace folio::apps {
namespace {

// Returns the index of the GPU that a value of --device selects, or nullopt for the CPU.
std::optional<int> gpu_of(const std::string& text) {
  if (text == "list") throw CallForDevices();
  if (text == "cpu") return {};
  if (text == "cuda") return 0;
  if (text.starts_with("cuda:")) {
    const auto number = core::number_of<int>(std::string_view(text).substr(5));
    if (number && *number >= 0) return number;
  }
  throw core::UsageError(fmt::format("--device: \"{}\", expected cpu, cuda, cuda:N or list", core::printable(text)));
}

void check_machines(const infer::MachineOptions& flags) {
  if (flags.gpu) return;
  const auto is_for_gpus = [](const char* flag) {
    throw core::UsageError(fmt::format("{} applies to GPUs only; add --device cuda", flag));
  };
  if (flags.gpu_layers) is_for_gpus("--gpu-layers");
  if (flags.cache_bytes) is_for_gpus("--cache-memory");
  if (flags.fast && infer::kernels::fast_pays()) {
    core::print_stderr("--fast: products of BF16 numbers, as {} rounds them\n", core::isa_name(core::select_isa()));
  } else if (flags.fast) {
    core::print_stderr("--fast has no effect: this CPU has no fast BF16 instructions\n");
  }
}

}  // namespace

uint64_t bytes_of(const char* flag, const std::string& text) {
  const size_t n_digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view unit = std::string_view(lower).substr(n_digits);
  for (const std::string_view ending : {"ib", "b"}) {  // removes the end of GiB or GB
    if (unit.ends_with(ending)) unit.remove_suffix(ending.size());
  }
  const size_t place = unit.empty() ? 0 : std::string_view("kmgt").find(unit) + 1;  // 0: no unit or an unknown one
  const bool known = unit.size() <= 1 && (unit.empty() || place > 0);
  const size_t shift = 10 * place;
  const auto number = core::number_of<uint64_t>(std::string_view(text).substr(0, n_digits));
  if (!known || !number || *number == 0 || *number > (UINT64_MAX >> 1U >> shift)) {
    throw core::UsageError(fmt::format("{}: \"{}\", expected a size such as 512M or 2G", flag, core::printable(text)));
  }
  return *number << shift;
}

void add_machine_flags(Flags& app, infer::MachineOptions& flags) {
  app.add_option("-t,--threads", flags.n_threads, "CPU threads (default: all cores)")->in_range(1, 1024);
  app.add_option("--shards", flags.n_shards,
                 "split the model into N shards with their own threads and memory; the output does not change "
                 "(default: one per NUMA node)")
      ->in_range(1, 64);
  app.add_option_function(
         "--device DEVICE", [&flags](const std::string& text) { flags.gpu = gpu_of(text); },
         "device that runs the model: cpu, cuda, or cuda:N for GPU N; list prints the GPUs")
      ->default_str("cpu");
  app.add_option("--gpu-layers", flags.gpu_layers, "number of last layers to run on the GPU (default: all)")
      ->in_range(1, 1024);
  app.add_option_function(
      "--cache-memory SIZE",
      [&flags](const std::string& text) { flags.cache_bytes = bytes_of("--cache-memory", text); },
      "maximum GPU memory for the KV cache, such as 2G (default: what is free)");
  app.add_flag("--fast", flags.fast,
               "BF16 arithmetic for 16-bit weights, and with AVX-512 for attention, on CPUs with fast BF16 "
               "instructions; faster, less precise prefill on GPUs, where the output may depend on the batch");
  app.final_callback([&flags] { check_machines(flags); });
}

void print_devices() {
  for (const infer::gpu::DeviceInfo& d : infer::gpu::devices()) {
    fmt::print("cuda:{}  {}, {:.1f} GB of memory, {:.1f} GB free, compute capability {}.{}, driver for CUDA {}\n",
               d.index, d.name, static_cast<double>(d.memory_bytes) / 1e9, static_cast<double>(d.free_bytes) / 1e9,
               d.major, d.minor, d.driver_version);
  }
}

// Returns a callback that shows progress on one line. The last `done` may be less than `total`, because some padding
// isn't copied, so percentages are rounded up to reach 100.
std::function<void(uint64_t, uint64_t)> progress_line() {
  return [shown = uint64_t{101}](uint64_t done, uint64_t total) mutable {
    const uint64_t percent = total == 0 ? 100 : (done * 100 + total - 1) / total;
    if (percent == std::exchange(shown, percent)) return;
    core::print_stderr("\rweights: {}% of {:.1f} MB copied to the GPU{}", percent, static_cast<double>(total) / 1e6,
                       percent == 100 ? "\n" : "");
  };
}

}  // namespace folio::apps
