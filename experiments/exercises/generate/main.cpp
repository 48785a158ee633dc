// The program build/exercises/generate: works like build/generate, but computes with the reader's functions in engine/.
#include <fmt/ranges.h>

#include "apps/text_program.h"
#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/paths.h"
#include "data/tokenizers/tokenizer_files.h"
#include "experiments/exercises/asan_options.h"
#include "experiments/exercises/generate/machine.h"

namespace {

using namespace folio;

struct Options {
  std::string model;
  std::string prompt = "ROMEO:";
  infer::GenerateOptions generate{.max_tokens = 256};
};

void add_flags(apps::Flags& app, Options& o) {
  app.add_option("-m,--model", o.model, "GGUF or Hugging Face directory of a Llama (default: the newest run)");
  app.add_option("-p,--prompt,prompt", o.prompt, "the text to go on from");
  app.add_option("-n,--max-tokens", o.generate.max_tokens, "tokens to generate")->in_range(0, 1e9);
  app.add_option("-s,--seed", o.generate.sampler.seed, "seed of the sampler (default: random, printed)")
      ->in_range(0, 1.8e19)
      ->default_str("");
  infer::SamplerOptions& s = o.generate.sampler;
  app.add_option("--temperature,--temp", s.temperature, "0: always the likeliest")->in_range(0, 100);
  app.add_option("--top-k", s.top_k, "0: off")->in_range(0, 1e9);
  app.add_option("--top-p", s.top_p, "1: off")->in_range(1e-6, 1);
  app.add_option("--min-p", s.min_p, "0: off")->in_range(0, 1);
}

std::string model_of(const std::string& flag) {
  if (!flag.empty()) return flag;
  try {
    return core::newest_model().string();
  } catch (const core::Error&) {
    core::fail("there is no model yet in {}: make demo trains one, or name one with -m FILE",
               core::runs_directory().string());
  }
}

int run(const apps::Flags& app, Options& o) {
  apps::complete_generation_options(app, o.generate);
  const std::string path = model_of(o.model);
  const core::StoredModel model = core::read_model(path);
  const auto tokenizer = data::load_tokenizer(model, "");
  const std::vector<int32_t> tokens = tokenizer->encode_prompt(o.prompt);

  const exercises::Parts parts = exercises::find_parts();
  fmt::print(stderr, "model: {}\nyours: {}\nthe engine's: {}\n\n", path,
             parts.own.empty() ? "nothing yet" : fmt::format("{}", fmt::join(parts.own, ", ")),
             parts.missing.empty() ? "nothing" : fmt::format("{}", fmt::join(parts.missing, ", ")));
  exercises::ExerciseMachine machine(parts);
  infer::Engine engine(model, machine);
  apps::watch_signals();
  apps::print_text(o.prompt);
  const auto result = infer::generate(engine, *tokenizer, tokens, o.generate, apps::print_text, apps::interrupted);
  apps::print_text("\n");
  fmt::print(stderr, "\n{} tokens, finish_reason {}, seed {}\n", result.tokens.size(),
             infer::finish_reason_name(result.finish_reason), o.generate.sampler.seed);
  return result.finish_reason == infer::FinishReason::Interrupted ? apps::interrupted_code() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Generates text from a model with the arithmetic of your exercises.", "generate");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
