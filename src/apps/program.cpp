#include "apps/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/file_status.h"
#include "core/paths.h"
#include "core/print_stderr.h"

namespace folio::apps {
namespace {

// Returns the first line, since exceptions of other libraries may contain a stack trace after it.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

int complain(const Flags& app, const std::string& message, int code) {
  core::print_stderr("{}: {}\n", app.name(), core::printable(message, std::string::npos));
  return code;
}

int parse_and_run(Flags& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    return app.parse(argc, argv) ? body() : 0;
  } catch (const CallForDevices&) {
    print_devices();
    return 0;
  }
}

}  // namespace

int run_program(Flags& app, int argc, char** argv, const std::function<int()>& body) {
  prepare_process(app.name());
  try {
    const int code = parse_and_run(app, argc, argv, body);
    flush_stdout();
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
  if (isatty(STDERR_FILENO) != 0) options.machines.on_progress = progress_line();
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
