#include "apps/program.h"

#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>

#include "core/error.h"
#include "core/paths.h"
#include "core/version.h"
#include "data/tokenizers/tokenizer_files.h"

namespace folio::apps {
namespace {

std::atomic<int> interrupts{0};  // written by a signal handler, hence global

void note_interrupt(int /*signal*/) {
  if (interrupts.fetch_add(1) > 0) std::_Exit(kExitInterrupted);
}

// Other libraries' messages go on with traces on further lines.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

int complain(const CLI::App& app, const std::string& message, int code) {
  fmt::print(stderr, "{}: {}\n", app.get_name(), first_line(message));
  return code;
}

int list_devices(const CLI::App& app) {
  try {
    print_devices();
    return 0;
  } catch (const core::Error& error) {
    return complain(app, error.what(), 1);
  }
}

}  // namespace

namespace {

std::string version_of(const CLI::App& app) { return fmt::format("{} of Folio {}", app.get_name(), core::version()); }

}  // namespace

void add_version_flag(CLI::App& app) {
  // export has a --version N, of llama2c's format.
  if (app.get_option_no_throw("--version") == nullptr) app.set_version_flag("--version", version_of(app));
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    add_version_flag(app);
    if (argc == 2 && std::string_view(argv[1]) == "--version") throw CLI::CallForVersion(version_of(app), 0);
    app.parse(argc, argv);
    return body();
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return 0;
  } catch (const CallForDevices&) {
    return list_devices(app);
  } catch (const CLI::ParseError& error) {
    return complain(app, fmt::format("{} (see {} --help)", error.what(), app.get_name()), 2);
  } catch (const core::UsageError& error) {
    return complain(app, error.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain(app, "out of memory; take a smaller model, batch or context", 1);
  } catch (const std::exception& error) {
    return complain(app, error.what(), 1);
  }
}

CLI::Validator by_name(std::vector<std::pair<std::string, int>> values) {
  return CLI::Validator(
      [values = std::move(values)](std::string& text) -> std::string {
        std::string names;
        for (const auto& [name, value] : values) {
          if (name == text) {
            text = std::to_string(value);
            return "";
          }
          names += (names.empty() ? "" : ", ") + name;
        }
        return fmt::format("\"{}\" has to be one of: {}", core::printable(text), names);
      },
      "");
}

CLI::Validator in_range(double low, double high) {
  const std::string range = fmt::format("[{:.10g}, {:.10g}]", low, high);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool whole = end != text.c_str() && *end == '\0';
        if (whole && value >= low && value <= high) return "";
        return fmt::format("{} is not a number in {}", core::printable(text), range);
      },
      "in " + range);
}

void watch_interrupt() {
  interrupts = 0;
  std::signal(SIGINT, note_interrupt);
}

void end_on_interrupt() {
  interrupts = 1;
  std::signal(SIGINT, note_interrupt);
}

bool interrupted() { return interrupts.load() > 0; }

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option("-m,--model", flags.model, "GGUF, llama2.c file or Hugging Face directory (default: the newest run)");
  add_machine_flags(app, flags.machines);
  app.add_option("--cache-type", flags.cache_type, "keys and values in the cache: f32, or f16 in half of the memory")
      ->transform(by_name({{"f32", static_cast<int>(infer::CacheType::F32)}, {"f16", static_cast<int>(infer::CacheType::F16)}}))
      ->type_name("f32|f16")
      ->default_str("f32");
}

std::string resolve_model(const ModelFlags& flags) {
  if (!flags.model.empty()) return flags.model;
  const std::string newest = core::newest_model().string();
  fmt::print(stderr, "model: {}\n", newest);
  return newest;
}

void report_repacking(const infer::LoadReport& report) {
  if (report.repacked_bytes == 0) return;
  fmt::print(stderr, "weights: {:.1f} MB repacked in {:.3f} s\n", static_cast<double>(report.repacked_bytes) / 1e6,
             report.repack_seconds);
}

void add_tokenizer_flag(CLI::App& app, std::string& file) {
  app.add_option("--tokenizer", file, "tokenizer.bin, tokenizer.json or GGUF, where the model has none in it");
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const core::StoredModel& model, const std::string& file) {
  const int64_t vocab_size = model.config.vocab_size;
  if (!file.empty()) return data::load_tokenizer(file, vocab_size);
  core::require(!core::is_llama2c(model.format), "{} has no tokenizer in it; add --tokenizer FILE", model.path);
  auto tokenizer = model.gguf ? data::tokenizer_from_gguf(*model.gguf) : data::tokenizer_from_hf(model.path);
  core::require(tokenizer->vocab_size() == vocab_size, "{}: {} tokens in the tokenizer, {} in the model", model.path,
                tokenizer->vocab_size(), vocab_size);
  return tokenizer;
}

}  // namespace folio::apps
