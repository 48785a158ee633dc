// model_check: compares a model's logits on a GPU and on the CPU (model_check.h). Exits with 1 if they differ too much.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/seconds_since.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/cuda/cuda.h"
#include "tests/infer/cuda/model_check.h"

namespace {

using namespace folio;

struct Options {
  std::string model;
  std::string text;
  int device = 0;
  bool fast = false;
  bool f32_cache = false;
};

constexpr size_t kPromptTokens = 192;  // maximum tokens of the text

std::vector<int32_t> prompt_of(const core::StoredModel& model, const Options& o) {
  std::ifstream in(o.text, std::ios::binary);
  core::require(static_cast<bool>(in), "{} can't be read", o.text);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto tokenizer = data::load_tokenizer(o.model, model.config.vocab_size);
  std::vector<int32_t> tokens = tokenizer->with_prefix(tokenizer->encode(text));
  tokens.resize(std::min(tokens.size(), kPromptTokens));
  return tokens;
}

int run(const Options& o) {
  const auto machine = infer::make_cuda({.device = o.device, .cache_bytes = {}, .fast = o.fast, .on_progress = {}});
  const core::StoredModel model = core::read_model(o.model);
  const auto start = std::chrono::steady_clock::now();
  const auto result =
      infer::test::check_model(model, *machine, prompt_of(model, o),
                               {.cache_type = o.f32_cache ? infer::CacheType::F32 : infer::CacheType::F16});
  const double seconds = core::seconds_since(start);
  fmt::print("{}, cache {}{}: {}; {} ({:.1f} s)\n", o.model, o.f32_cache ? "f32" : "f16", o.fast ? ", --fast" : "",
             result.holds() ? "holds" : "FAILS", result.to_string(), seconds);
  return result.holds() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares a model's logits on a GPU with the CPU's, position by position.", "model_check");
  Options o;
  app.add_option("model", o.model, "a GGUF")->required();
  app.add_option("--text", o.text, "file that begins with the prompt")->required();
  app.add_option("--device", o.device, "which GPU");
  app.add_flag("--fast", o.fast, "as the programs' --fast");
  app.add_flag("--f32-cache", o.f32_cache, "keys and values in F32 (default: F16)");
  try {
    app.parse(argc, argv);
    return run(o);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "model_check: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_check: {}\n", error.what());
    return 1;
  }
}
