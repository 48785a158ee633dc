// verify: compares LibTorch and the engine on the same weights and tokens, layer by layer. Exits with 1 if they differ.
#include "train/verify/verify.h"

#include <filesystem>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/gguf_model.h"
#include "core/formats/model_files.h"
#include "core/quants.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/engine/generate.h"
#include "modules/families/parts.h"
#include "train/run/checkpoint.h"
#include "train/run/trainer.h"
#include "train/run/weights.h"
#include "train/step/evaluate.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

struct Options {
  std::string checkpoint;
  std::string model;
  std::string tokenizer;
  std::string text;
  double tolerance = 1e-4;
  int64_t windows = 64;
  infer::MachineOptions machines;
};

// The tokens used for the comparison: the validation split of the checkpoint's dataset, or the tokens of a given text.
struct Material {
  std::vector<int32_t> tokens;
  int64_t window = 0;
};

Material material_of(const Options& o, const fs::path& checkpoint, const data::Tokenizer& tokenizer,
                     const core::ModelConfig& config) {
  if (!o.text.empty()) {
    Material material{.tokens = tokenizer.encode(core::read_text_file(o.text)), .window = config.context_length};
    const auto most = static_cast<int64_t>(material.tokens.size()) - 1;
    core::require(most >= 1, "{}: {} tokens, expected at least 2; use a longer text", o.text, material.tokens.size());
    material.window = std::min(material.window, most);
    return material;
  }
  core::require(core::path_exists(checkpoint / "trainer.json"),
                "{} has no trainer.json with its dataset; give a text with --text FILE", o.checkpoint);
  const train::TrainerState state = train::read_trainer_state(checkpoint);
  core::require(state.source.field != "messages" && state.source.eval_path.empty(),
                "{} was validated on {}; give a text with --text FILE", o.checkpoint,
                state.source.eval_path.empty() ? "conversations" : "a separate text");
  std::vector<std::string> paths;
  std::istringstream lines(state.source.path);
  for (std::string path; std::getline(lines, path);) paths.push_back(path);
  const data::TextFiles texts = data::find_texts(paths, state.source.field);
  const data::DocumentsSummary summary = data::summarize(texts.documents);
  core::require(summary.digest == state.source.digest,
                "{}: the text has changed since the checkpoint was trained; restore it or use --text FILE",
                core::printable(state.source.path));
  const train::TextDataset dataset(texts, summary, state.config, data::tokenizer_from_hf(checkpoint), {});
  return {.tokens = dataset.splits().validation.to_vector(),
          .window = std::min(state.config.window, config.context_length)};
}

bool compare_weights(const core::Weights& reference, const core::StoredModel& file) {
  const auto difference = train::first_difference(reference, file);
  if (!difference) {
    fmt::print("weights: {} tensors equal\n", file.tensors.size());
    return true;
  }
  fmt::print("weights differ, first in {}: row {}, column {}: checkpoint {:.9g}, {} {:.9g}\n", difference->name,
             difference->row, difference->column, difference->reference, file.path, difference->found);
  return false;
}

bool compare_layers(nn::Llama& reference, const train::EngineSide& side, std::span<const int32_t> tokens,
                    double tolerance) {
  fmt::print("{:<32} {:>14}\n", "tensor", "relative error");
  const train::Divergence* first = nullptr;
  const auto divergences = train::compare_forward(reference, side, tokens);
  for (const auto& d : divergences) {
    const bool apart = !(d.relative_error <= tolerance);
    fmt::print("{:<32} {:>14.3e}{}\n", d.name, d.relative_error, apart ? "  DIFFERS" : "");
    if (apart && first == nullptr) first = &d;
  }
  if (first == nullptr) return true;
  fmt::print("first difference in {}: position {}, index {}: LibTorch {:.9g}, engine {:.9g} (tolerance {:g})\n",
             first->name, first->position, first->index, first->libtorch, first->engine, tolerance);
  return false;
}

std::vector<int32_t> translated(const train::EngineSide& side, std::vector<int32_t> tokens) {
  for (int32_t& token : tokens) token = side.ids.empty() ? token : side.ids[static_cast<size_t>(token)];
  return tokens;
}

bool compare_text(nn::Llama& reference, const train::EngineSide& side, const data::Tokenizer& tokenizer,
                  const data::Tokenizer& file_tokenizer, int64_t n) {
  const auto prompt = tokenizer.default_prompt();
  infer::GenerateOptions greedy;
  greedy.max_tokens = n;
  greedy.sampler.temperature = 0.0F;
  // Removes the first end token and all later tokens, because greedy_by_libtorch() continues after an end token.
  const auto until_end_token = [&](std::vector<int32_t> tokens) {
    const auto end = std::ranges::find_if(tokens, [&](int32_t token) { return file_tokenizer.ends_text(token); });
    tokens.erase(end, tokens.end());
    return tokens;
  };
  const auto by_engine =
      until_end_token(infer::generate(side.engine, file_tokenizer, translated(side, prompt), greedy).tokens);
  const auto by_libtorch =
      until_end_token(translated(side, train::greedy_by_libtorch(reference, prompt, n, tokenizer.suppressed_tokens())));
  const auto gap = std::mismatch(by_engine.begin(), by_engine.end(), by_libtorch.begin(), by_libtorch.end());
  if (gap.first == by_engine.end() && gap.second == by_libtorch.end()) {
    fmt::print("greedy output: {} tokens equal\n", by_engine.size());
    return true;
  }
  fmt::print("greedy output differs at token {}\n", gap.first - by_engine.begin());
  return false;
}

bool compare_loss(nn::Llama& reference, const train::EngineSide& side, const Material& material, int64_t windows) {
  const auto all = data::consecutive_windows(material.tokens, material.window);
  const auto scored = std::min(windows == 0 ? all : windows, all);
  const auto part = std::span(material.tokens).first(static_cast<size_t>(scored * material.window + 1));
  const double by_libtorch = train::split_loss(reference, part, material.window, torch::kCPU);
  const double by_engine = train::split_loss_by_engine(side, part, material.window, scored);
  fmt::print("validation loss over {} windows of {}: LibTorch {:.6f}, engine {:.6f}\n", scored, material.window,
             by_libtorch, by_engine);
  return std::abs(by_libtorch - by_engine) <= 1e-4;
}

int run(const Options& o) {
  const fs::path checkpoint = core::without_links(o.checkpoint);
  core::StoredModel trained = core::read_model(checkpoint);
  const auto tokenizer = data::load_tokenizer(trained, "");
  infer::LoadedModel model = infer::LoadedModel::open(
      o.model, {.tokenizer = o.tokenizer, .machines = o.machines, .cache_type = infer::CacheType::F32});
  for (const core::TensorView& tensor : model.file().tensors) {
    core::require(core::quant_info(tensor.type) == nullptr,
                  "{}: products with {} round their inputs to 8 bits, so no value equals LibTorch's; compare losses "
                  "with perplexity, or verify a file of type f32, f16 or bf16",
                  o.model, core::info(tensor.type).name);
  }
  const data::Tokenizer& file_tokenizer = model.tokenizer();
  train::EngineSide side{.engine = model.engine()};
  core::StoredModel file = model.file();
  if (file_tokenizer.kind() != tokenizer->kind()) {  // the same tokens, but with other ids in the file
    side.ids = train::matching_ids(*tokenizer, file_tokenizer);
    file = core::with_vocabulary(file, side.ids);
  }
  const int64_t n_layers = trained.config.n_layers;
  if (file.config.n_tokens_ahead < trained.config.n_tokens_ahead)  // the file has no MTP module (core::for_llama_cpp)
    trained = core::with_layers(std::move(trained), n_layers);
  const bool is_gguf = file.format == core::ModelFormat::Gguf;
  const std::string difference =
      core::describe_difference(is_gguf ? core::as_in_gguf(trained.config) : trained.config, file.config);
  core::require(difference.empty(), "{} and {} are different models: {}", o.checkpoint, o.model, difference);

  trained.config = file.config;
  bool same = compare_weights(core::to_weights(trained), file);
  // If the file's weights are rounded, LibTorch uses the rounded ones too, so only the arithmetic is compared.
  const bool rounded = file.format == core::ModelFormat::Llama2cV2 ||
                       std::ranges::any_of(file.tensors, [](const auto& t) { return t.type != core::DType::F32; });
  if (rounded) fmt::print("the file's weights are rounded; LibTorch uses the rounded weights too\n");
  nn::Llama reference = nn::family_llama(file.config);
  train::load_weights(rounded ? file : trained, reference);
  reference->eval();

  // The file's context may be shorter than the checkpoint's: a GGUF limits it to the sliding window.
  const Material material = material_of(o, checkpoint, *tokenizer, file.config);
  const auto n = std::min<size_t>(material.tokens.size(), static_cast<size_t>(file.config.context_length));
  same = compare_layers(reference, side, std::span(material.tokens).first(n), o.tolerance) && same;
  same = compare_text(reference, side, *tokenizer, file_tokenizer, 200) && same;
  same = compare_loss(reference, side, material, o.windows) && same;
  fmt::print("{}\n", same ? "LibTorch and the engine agree" : "LibTorch and the engine DISAGREE");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Compare LibTorch and the engine layer by layer: activations, greedy output and validation loss.",
                  "verify");
  Options o;
  app.default_group("Options");
  app.add_option("checkpoint", o.checkpoint, "checkpoint or other model, such as runs/NAME/checkpoints/best")
      ->required();
  app.add_option("model", o.model, "GGUF, llama2.c file or Hugging Face directory, such as runs/NAME/model.gguf")
      ->required();
  apps::add_tokenizer_flag(app, o.tokenizer);
  app.add_option("--text FILE", o.text, "text file to compare on (default: the checkpoint's validation split)");
  app.add_option("--tolerance", o.tolerance, "maximum error relative to the root mean square")->in_range(0, 1);
  app.add_option("--windows", o.windows, "number of validation windows to score; 0: all")->in_range(0, 1e9);
  app.group("Hardware");
  apps::add_machine_flags(app, o.machines);
  return apps::run_program(app, argc, argv, [&] { return run(o); });
}
