// verify: LibTorch and the engine on the same tokens, layer by layer; exits 1 when they part.
#include "train/verify.h"

#include <filesystem>

#include "apps/program.h"
#include "core/error.h"
#include "core/model_files.h"
#include "data/char_tokenizer.h"
#include "data/corpus.h"
#include "infer/generate.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

struct Options {
  std::string checkpoint;
  std::string model;
  double tolerance = 1e-4;
  int64_t windows = 64;
  size_t threads = 0;
};

// The validation split of the text that the checkpoint was trained on.
struct Material {
  std::vector<int32_t> validation;
  int64_t window = 0;
};

Material material_of(const fs::path& checkpoint) {
  const train::TrainerState state = train::read_trainer_state(checkpoint);
  const train::Dataset dataset(data::load_corpus(state.corpus_path), state.config);
  core::require(dataset.digest() == state.corpus_digest, "{} is not the text that the checkpoint was trained on",
                state.corpus_path);
  const auto split = dataset.splits().validation;
  return {.validation = {split.begin(), split.end()}, .window = state.config.window};
}

bool compare_layers(nn::Llama& reference, infer::Engine& engine, std::span<const int32_t> tokens, double tolerance) {
  fmt::print("{:<32} {:>14}\n", "place", "relative error");
  const train::Divergence* first = nullptr;
  const auto divergences = train::compare_forward(reference, engine, tokens);
  for (const auto& d : divergences) {
    const bool apart = !(d.relative_error <= tolerance);
    fmt::print("{:<32} {:>14.3e}{}\n", d.name, d.relative_error, apart ? "  APART" : "");
    if (apart && first == nullptr) first = &d;
  }
  if (first == nullptr) return true;
  fmt::print("they part at {}: position {}, index {}: LibTorch {:.9g}, engine {:.9g} (tolerance {:g})\n", first->name,
             first->position, first->index, first->libtorch, first->engine, tolerance);
  return false;
}

bool compare_text(nn::Llama& reference, infer::Engine& engine, const data::Tokenizer& tokenizer, int64_t n) {
  const auto prompt = tokenizer.default_prompt();
  infer::GenerateOptions greedy;
  greedy.max_tokens = n;
  greedy.sampler.temperature = 0.0F;
  const auto by_engine = infer::generate(engine, tokenizer, prompt, greedy).tokens;
  const auto by_libtorch = train::greedy_by_libtorch(reference, prompt, n, tokenizer.never_sampled());
  const auto gap = std::mismatch(by_engine.begin(), by_engine.end(), by_libtorch.begin(), by_libtorch.end());
  if (gap.first == by_engine.end() && gap.second == by_libtorch.end()) {
    fmt::print("greedy text: {} tokens equal\n", by_engine.size());
    return true;
  }
  fmt::print("greedy text parts at token {}\n", gap.first - by_engine.begin());
  return false;
}

bool compare_loss(nn::Llama& reference, infer::Engine& engine, const Material& material, int64_t windows) {
  const auto all = data::consecutive_windows(material.validation, material.window);
  const auto scored = std::min(windows == 0 ? all : windows, all);
  const auto part = std::span(material.validation).first(static_cast<size_t>(scored * material.window + 1));
  const double by_libtorch = train::split_loss(reference, part, material.window, torch::kCPU);
  const double by_engine = train::split_loss_by_engine(engine, part, material.window, scored);
  fmt::print("validation loss over {} windows of {}: LibTorch {:.6f}, engine {:.6f}\n", scored, material.window,
             by_libtorch, by_engine);
  return std::abs(by_libtorch - by_engine) <= 1e-4;
}

int run(const Options& o) {
  const fs::path checkpoint = fs::weakly_canonical(o.checkpoint);
  const core::Weights weights = core::read_hf_directory(checkpoint);
  const infer::Model model(o.model);
  const std::string difference = core::describe_difference(weights.config, model.config());
  core::require(difference.empty(), "{} and {} are different models: {}", o.checkpoint, o.model, difference);
  nn::Llama reference(weights.config);
  train::load_weights(weights, reference);
  reference->eval();
  infer::Engine engine(model, {.n_threads = o.threads});
  const auto tokenizer = data::tokenizer_from_gguf(model.file());
  core::require(tokenizer->vocab_size() == weights.config.vocab_size, "{}: the tokenizer does not fit the model",
                o.model);

  const Material material = material_of(checkpoint);
  const auto n = std::min<size_t>(material.validation.size(), static_cast<size_t>(weights.config.context_length));
  bool same = compare_layers(reference, engine, std::span(material.validation).first(n), o.tolerance);
  same = compare_text(reference, engine, *tokenizer, 200) && same;
  same = compare_loss(reference, engine, material, o.windows) && same;
  fmt::print("{}\n", same ? "LibTorch and the engine agree" : "LibTorch and the engine DISAGREE");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares LibTorch and the engine layer by layer: intermediates, greedy text, validation loss.",
               "verify");
  Options o;
  app.add_option("checkpoint", o.checkpoint, "checkpoint directory, such as runs/NAME/checkpoints/best")->required();
  app.add_option("model", o.model, "GGUF file, such as runs/NAME/model.gguf")->required();
  app.add_option("--tolerance", o.tolerance, "largest error, relative to the root mean square")
      ->check(apps::in_range(0, 1))
      ->capture_default_str();
  app.add_option("--windows", o.windows, "validation windows to score; 0: all")
      ->check(apps::in_range(0, 1e9))
      ->capture_default_str();
  app.add_option("-t,--threads", o.threads, "threads (default: all cores)")->check(apps::in_range(1, 1024));
  return apps::run_program(app, argc, argv, [&] { return run(o); });
}
