// export: a checkpoint as one model file.
#include <filesystem>

#include "apps/program.h"
#include "core/error.h"
#include "core/model_files.h"
#include "data/char_tokenizer.h"

namespace {

using namespace folio;

int run(const std::string& checkpoint, const std::string& out) {
  const std::filesystem::path directory = std::filesystem::weakly_canonical(checkpoint);
  const core::Weights weights = core::read_hf_directory(directory);
  const auto tokenizer = data::CharTokenizer::read_hf(directory);
  core::require(tokenizer.vocab_size() == weights.config.vocab_size, "{}: {} tokens in the tokenizer, {} in the model",
                directory.string(), tokenizer.vocab_size(), weights.config.vocab_size);
  core::write_model_gguf(out, weights, directory.filename().string(), tokenizer.to_gguf());
  fmt::print("{}: {} parameters, F32\n", out, core::parameter_count(weights.config));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a checkpoint (a Hugging Face directory) as a GGUF file.", "export");
  std::string checkpoint;
  std::string out;
  std::string format = "gguf";
  std::string type = "f32";
  app.add_option("checkpoint", checkpoint, "checkpoint directory, such as runs/NAME/checkpoints/best")->required();
  app.add_option("--out", out, "the file to write")->required();
  app.add_option("--format", format, "gguf")->check(CLI::IsMember({"gguf"}))->capture_default_str();
  app.add_option("--type", type, "f32")->check(CLI::IsMember({"f32"}))->capture_default_str();
  return apps::run_program(app, argc, argv, [&] { return run(checkpoint, out); });
}
