// inspect: prints the configuration, the tokenizer and the tensors of a model file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_status.h"
#include "core/formats/model_files.h"
#include "core/formats/safetensors.h"
#include "core/json.h"
#include "core/manifest.h"
#include "data/tokenizers/tokenizer_files.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

std::string shown(const core::GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, core::GgufArray>) {
          return fmt::format("[{} items]", v.size());
        } else if constexpr (std::is_same_v<T, std::string>) {
          return fmt::format("\"{}\"", core::printable(v));
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

void print_config(const core::ModelConfig& config) {
  fmt::print("configuration\n");
  core::ModelConfig::visit_fields(
      config, [](const char* name, auto value, auto&&) { fmt::print("  {:<24} {}\n", name, value); });
  fmt::print("  {:<24} {}\n", "parameters", core::parameter_count(config));
}

void print_tokenizer(const data::Tokenizer& tokenizer) {
  fmt::print("tokenizer\n  {:<16} {}\n  {:<16} {}\n  {:<16} {}\n", "kind", tokenizer.kind(), "tokens",
             tokenizer.vocab_size(), "end of text", tokenizer.end_of_text());
}

void print_tensors(const std::vector<core::TensorView>& tensors) {
  fmt::print("tensors ({})\n", tensors.size());
  for (const auto& t : tensors) {
    fmt::print("  {:<42} {:<6} {:<16} {} bytes\n", core::printable(t.name), core::info(t.type).name,
               core::shape_string(t.shape), t.bytes.size());
  }
}

// Runs `print`. If it throws, prints the error instead: inspect also shows files that Folio cannot run.
template <typename Print>
void attempt(const char* what, Print&& print) {
  try {
    print();
  } catch (const core::Error& error) {
    fmt::print("{}\n  not supported: {}\n", what, error.what());
  }
}

void inspect_gguf(const fs::path& path) {
  const core::GgufFile file(path);
  fmt::print("{}: GGUF, {} bytes\n", path.string(), file.size());
  fmt::print("metadata\n");
  for (const auto& [key, value] : file.metadata()) fmt::print("  {:<42} {}\n", core::printable(key), shown(value));
  attempt("configuration", [&] { print_config(core::config_from_gguf(file)); });
  attempt("tokenizer", [&] { print_tokenizer(*data::tokenizer_from_gguf(file)); });
  print_tensors(file.tensors());
}

void inspect_safetensors(const fs::path& path) {
  const core::SafetensorsFile file(path);
  fmt::print("{}: safetensors\n", path.string());
  print_tensors(file.tensors());
}

void inspect_model(const fs::path& path) {
  const core::StoredModel model = core::read_model(path);
  fmt::print("{}: {}\n", path.string(), core::format_name(model.format));
  print_config(model.config);
  if (core::is_folder(path)) attempt("tokenizer", [&] { print_tokenizer(*data::tokenizer_from_hf(path)); });
  print_tensors(model.tensors);
}

int run(const std::string& name) {
  const fs::path path = name;
  if (path.extension() == ".safetensors") {
    inspect_safetensors(path);
  } else if (!core::is_folder(path) && core::is_gguf(path)) {
    inspect_gguf(path);
  } else {
    inspect_model(path);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app(
      "Print the configuration, tokenizer and tensors of a GGUF, safetensors or llama2.c file or a Hugging Face "
      "directory.",
      "inspect");
  std::string file;
  app.add_option("file", file, "file or directory")->required();
  return apps::run_program(app, argc, argv, [&] { return run(file); });
}
