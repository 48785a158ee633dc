#include "apps/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/number.h"
#include "core/paths.h"
#include "core/print_stderr.h"
#include "core/progress_line.h"
#include "infer/cuda/cuda.h"
#include "infer/reference/kernels.h"

namespace folio::apps {
namespace {

// Returns the first line, since exceptions of other libraries may contain a stack trace after it.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

int complain(const Flags& app, const std::string& message, int code) {
  core::print_stderr("{}: {}\n", app.name(), core::printable(message, std::string::npos));
  return code;
}

void print_devices() {
  for (const infer::gpu::DeviceInfo& d : infer::gpu::devices()) {
    fmt::print("cuda:{}  {}, {:.1f} GB of memory, {:.1f} GB free, compute capability {}.{}, driver for CUDA {}\n",
               d.index, d.name, static_cast<double>(d.memory_bytes) / 1e9, static_cast<double>(d.free_bytes) / 1e9,
               d.major, d.minor, d.driver_version);
  }
}

// Returns the index of the GPU that a value of --device selects, or nullopt for the CPU.
std::optional<int> gpu_of(const std::string& text) {
  if (text == "list") {
    print_devices();
    throw Flags::Done();
  }
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

// Returns a callback that shows the percentage of weights copied to the GPU. The last `done` may be less than `total`,
// because some padding isn't copied, so percentages are rounded up to reach 100.
std::function<void(uint64_t, uint64_t)> progress_line() {
  return [shown = uint64_t{101}, line = std::make_shared<core::ProgressLine>()](uint64_t done, uint64_t total) mutable {
    const uint64_t percent = total == 0 ? 100 : (done * 100 + total - 1) / total;
    if (percent == std::exchange(shown, percent)) return;
    line->show("weights: {}% of {:.1f} MB copied to the GPU", percent, static_cast<double>(total) / 1e6);
    if (percent == 100) line->erase();
  };
}

}  // namespace

int run_program(Flags& app, int argc, char** argv, const std::function<int()>& body) {
  prepare_process(app.name());
  try {
    const int code = app.parse(argc, argv) ? body() : 0;
    if (code == 0) flush_stdout();
    return code;
  } catch (const core::UsageError& error) {
    return complain(app, error.what(), 2);
  } catch (const core::Error& error) {
    return complain(app, error.what(), 1);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(app, core::describe(error), 1);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return complain(app, first_line(error.what()), 1);
    return complain(app, fmt::format("cannot write to stdout: {}", error.code().message()), 1);
  } catch (const std::exception& error) {
    return complain(app, first_line(core::describe(error)), 1);
  }
}

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

void add_model_flags(Flags& app, ModelFlags& flags) {
  app.group("Model");
  app.add_option("-m,--model PATH", flags.model, "GGUF, llama2.c file or Hugging Face directory (default: newest run)");
  app.group("Hardware");
  add_machine_flags(app, flags.load.machines);
  app.add_option(
         "--cache-type f32|f16|q8_0", flags.load.cache_type,
         "KV cache data type, q8_0 on CPUs only; lower precision may change the output (default: f16; f32 for F32 "
         "models)")
      ->by_name({{"f32", static_cast<int>(infer::CacheType::F32)},
                 {"f16", static_cast<int>(infer::CacheType::F16)},
                 {"q8_0", static_cast<int>(infer::CacheType::Q8_0)}});
}

infer::LoadedModel open_model(const ModelFlags& flags) {
  infer::LoadOptions options = flags.load;
  options.machines.on_progress = progress_line();
  if (!flags.model.empty()) return infer::LoadedModel::open(flags.model, options);
  const std::string newest = core::newest_model().string();
  core::print_stderr("model: {}\n", newest);
  return infer::LoadedModel::open(newest, options);
}

void report_repacking(infer::LoadedModel& model) {
  for (const infer::LoadReport& report : model.load_reports()) {
    if (report.repacked_bytes == 0) continue;
    core::print_stderr("weights: {:.1f} MB repacked in {:.3f} s\n", static_cast<double>(report.repacked_bytes) / 1e6,
                       report.repack_seconds);
  }
}

void add_draft_flags(Flags& app, infer::LoadOptions& options) {
  using infer::DraftSource;
  app.add_option_function(
         "--draft auto|ngram|model|mtp",
         [&options](const std::string& number) { options.draft = static_cast<DraftSource>(std::stoi(number)); },
         "source of draft tokens: n-gram lookup, --draft-model, or the model's module for multi-token prediction; "
         "auto: the first of mtp, model and ngram that there is")
      ->by_name({{"auto", static_cast<int>(DraftSource::Auto)},
                 {"ngram", static_cast<int>(DraftSource::NGrams)},
                 {"model", static_cast<int>(DraftSource::Model)},
                 {"mtp", static_cast<int>(DraftSource::Mtp)}})
      ->default_str("auto")
      ->needs("--speculate");
  app.add_option("--draft-model PATH", options.draft_model,
                 "smaller model with the same vocabulary that proposes the draft tokens")
      ->needs("--speculate");
}

void complete_draft_source(size_t speculate, infer::LoadOptions& options) {
  if (!options.draft && speculate > 0) options.draft = infer::DraftSource::Auto;
  size_t& rows = options.machines.max_logit_rows;
  rows = std::max(rows, (1 + speculate) * options.limits.max_sequences);
}

core::AdapterPath adapter_path(const char* flag, const std::string& text) {
  if (text.empty()) throw core::UsageError(fmt::format("{}: the path is empty, expected PATH[:SCALE]", flag));
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || core::path_exists(text)) return {.path = text};
  core::AdapterPath adapter{.path = text.substr(0, colon)};
  const std::string scale = text.substr(colon + 1);
  adapter.scale = signed_number_of<float>(scale).value_or(NAN);
  if (!(std::abs(adapter.scale) <= 1000)) {
    throw core::UsageError(
        fmt::format("{}: scale \"{}\", expected a number in [-1000, 1000]", flag, core::printable(scale)));
  }
  return adapter;
}

void add_adapters_flag(Flags& app, const char* flag, std::vector<core::AdapterPath>& adapters, const char* help) {
  app.add_list_function(
      fmt::format("{} PATH[:SCALE]", flag),
      [&adapters, flag](const std::vector<std::string>& all) {
        for (const std::string& text : all) adapters.push_back(adapter_path(flag, text));
      },
      help);
}

void add_lora_flag(Flags& app, infer::LoadOptions& options) {
  add_adapters_flag(app, "--lora", options.adapters,
                    "LoRA adapter (peft or GGUF), scaled by SCALE (repeatable; summed)");
}

void add_generation_config_flag(Flags& app, infer::LoadOptions& options) {
  app.add_option("--generation-config auto|none|DIR", options.generation_config,
                 "source of sampling defaults and end tokens: the model's generation_config.json or GGUF (auto), none, "
                 "or a directory with a generation_config.json");
}

void print_sampler_defaults(const infer::LoadedModel& model) {
  const core::GenerationConfig& config = model.file().generation;
  std::string values;
  for (const auto& [name, value] : config.sampling) {
    const bool whole = value == std::trunc(value);  // 2147483647 has more than 6 digits
    values += fmt::format("{}{} {:.{}g}", values.empty() ? "" : ", ", name, value, whole ? 10 : 6);
  }
  if (!values.empty()) core::print_stderr("sampling: {} (from {})\n", values, config.where);
}

void add_tokenizer_flag(Flags& app, std::string& file) {
  app.add_option("--tokenizer FILE", file, "tokenizer.json, tokenizer.bin or GGUF, for models without one");
}

}  // namespace folio::apps
