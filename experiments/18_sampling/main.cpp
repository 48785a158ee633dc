// Study: what do temperature, top-k, top-p and min-p do to the output? The results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/corpus.h"
#include "experiments/18_sampling/draws.h"
#include "experiments/18_sampling/halving.h"
#include "experiments/18_sampling/results.h"
#include "experiments/18_sampling/two_positions.h"
#include "experiments/common/readers_model.h"
#include "infer/cpu/cpu.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::Counted;
using experiments::Report;
using experiments::Results;
using experiments::Setting;
using experiments::Text;

const std::vector<std::string> kRising{"greedy", "T = 0.25", "T = 0.5", "T = 0.75", "T = 1", "T = 1.25", "T = 1.5"};

std::vector<Setting> three_cuts() {
  return {{"top-k 5", {.temperature = 1.0F, .top_k = 5, .top_p = 1.0F}},
          {"top-p 0.9", {.temperature = 1.0F, .top_p = 0.9F}},
          {"min-p 0.1", {.temperature = 1.0F, .top_p = 1.0F, .min_p = 0.1F}}};
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  float t = 0.0F;
  for (const std::string& name : kRising) {
    settings.push_back({name, {.temperature = t, .top_p = 1.0F}});
    t += 0.25F;
  }
  for (const Setting& cut : three_cuts()) settings.push_back(cut);
  settings.push_back({"T = 0.8, top-p 0.95", {}});  // the defaults of build/generate
  return settings;
}

// The number of tokens in a prompt, which is an excerpt from the validation split.
constexpr size_t kPrompt = 32;

std::vector<Text> from_book(std::span<const int32_t> validation, size_t n_texts, size_t n_tokens, uint64_t seed) {
  std::vector<Text> texts;
  for (size_t i = 0; i < n_texts; ++i) {
    const size_t at = (seed * n_texts + i) * 1021 % (validation.size() - kPrompt - n_tokens);
    const auto text = validation.subspan(at, kPrompt + n_tokens);
    texts.push_back({.prompt = {text.begin(), text.begin() + kPrompt}, .tokens = {text.begin() + kPrompt, text.end()}});
  }
  return texts;
}

std::string in_one_line(const data::Tokenizer& tokenizer, const Text& text) {
  std::string line = tokenizer.decode(text.prompt) + "|" + tokenizer.decode(text.tokens);
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos;) line.replace(at, 1, " / ");
  return line;
}

void check_results(Report& report, const Results& results, size_t tokens_of_a_seed) {
  double n_other = 0.0;
  for (const Setting& setting : all_settings()) {
    for (const double n : results.all(setting.name, &Counted::other)) n_other += n;
  }
  report.check_equal("drawn tokens other than the textbook's draw from (seed, position)", static_cast<int64_t>(n_other),
                     0);
  report.check_above("repeated 8-grams: greedy more than T = 1", results.gap("greedy", "T = 1", &Counted::repeated),
                     0.1);
  report.check_above("distinct 4-grams: T = 1 more than greedy", results.gap("T = 1", "greedy", &Counted::distinct),
                     0.1);
  for (size_t i = 1; i < kRising.size(); ++i) {
    report.check_above(fmt::format("entropy: {} more than {}", kRising[i], kRising[i - 1]),
                       results.gap(kRising[i], kRising[i - 1], &Counted::entropy), 0.05);
  }
  report.check_above("−ln p: the book more than greedy", results.gap("the book", "greedy", &Counted::surprise), 0.3);
  report.check_above("−ln p: T = 1.5 more than the book", results.gap("T = 1.5", "the book", &Counted::surprise), 0.3);
  // For tokens sampled from the model itself, the mean of -ln p equals the mean entropy, up to the sampling error.
  std::vector<double> errors;
  const auto variance = results.by_seed("T = 1", &Counted::surprise_variance);
  const auto surprise = results.by_seed("T = 1", &Counted::surprise);
  const auto entropy = results.by_seed("T = 1", &Counted::entropy);
  for (size_t i = 0; i < variance.size(); ++i) {
    const double standard_error = std::sqrt(variance[i] / static_cast<double>(tokens_of_a_seed));
    errors.push_back(std::abs(surprise[i] - entropy[i]) / standard_error);
  }
  report.check_below("T = 1: −ln p against entropy, in standard errors", errors, 5.0);
  report.check_above("top-p 0.9: the least probability that it keeps anywhere",
                     results.least("top-p 0.9", &Counted::least_mass), 0.9 - 1e-6);
  report.check_below("top-k 5: likewise", results.least("top-k 5", &Counted::least_mass), 0.75);
  report.check_below("min-p 0.1: likewise", results.least("min-p 0.1", &Counted::least_mass), 0.9);
}

// Checks that the policy Halving keeps half of the sequences, each equal to one sampled without a policy.
void check_halving(Report& report, infer::Engine& engine, const data::Tokenizer& tokenizer, const Text& text) {
  constexpr size_t kAfter = 16;
  infer::Request request{.prompt = text.prompt,
                         .options = {.max_tokens = 2 * kAfter, .sampler = {.temperature = 1.0F, .top_p = 1.0F}, .n = 8},
                         .tokenizer = &tokenizer};
  const auto run = [&] {
    const infer::RequestId id = engine.add(request);
    while (engine.step()) continue;
    return engine.take_all(id);
  };
  const auto all = run();
  request.policy = [] { return std::make_unique<experiments::Halving>(size_t{kAfter}); };
  int64_t n_other = 0;
  const auto left = run();
  for (const infer::GenerateResult& result : left) {
    n_other += std::ranges::find(all, result.tokens, &infer::GenerateResult::tokens) == all.end() ? 1 : 0;
  }
  report.check_equal("of 8 samples that are halved after 16 tokens, those that are left", std::ssize(left), 4);
  report.check_equal("those of them that are not among the 8", n_other, 0);
}

void study(Report& report) {
  const experiments::ReadersModel reader = experiments::readers_model(report);
  const size_t n_texts = report.short_form() ? 8 : 32;
  const size_t n_tokens = report.short_form() ? 96 : 192;
  const int64_t context = reader.model.config.context_length;
  core::require(context >= static_cast<int64_t>(kPrompt + n_tokens),
                "the model sees {} tokens, but this study's texts have {}; train one with --context 256", context,
                kPrompt + n_tokens);
  const data::Corpus corpus = data::load_corpus("tinyshakespeare");
  const std::vector<int32_t> tokens = reader.tokenizer->encode(corpus.text);
  const auto validation = data::split_tokens(tokens, 0.1, 0.0).validation;
  const std::vector<int32_t> never = reader.tokenizer->suppressed_tokens();
  infer::Cpu cpu;
  infer::Engine engine(reader.model, cpu, {.n_sequences = static_cast<int64_t>(n_texts)});

  Results results(n_texts);
  for (const uint64_t seed : report.seeds()) {
    const std::vector<Text> book = from_book(validation, n_texts, n_tokens, seed);
    results.add("the book", experiments::counted(engine, book, never, {.temperature = 1.0F, .top_p = 1.0F}));
    for (Setting setting : all_settings()) {
      setting.options.seed = 1000 * seed;
      const auto texts = experiments::continued(engine, *reader.tokenizer, book, n_tokens, setting.options);
      results.add(setting.name, experiments::counted(engine, texts, never, setting.options));
      if (seed == report.seed())
        report.say(fmt::format("{}: {}", setting.name, in_one_line(*reader.tokenizer, texts[0])));
    }
  }
  results.show(report, "the book", all_settings());
  check_results(report, results, n_texts * n_tokens);
  const Text text = from_book(validation, n_texts, n_tokens, report.seed())[0];
  const std::vector<float> unsure =
      experiments::cut_two_positions(report, engine, *reader.tokenizer, text, three_cuts());
  experiments::check_draws(report, unsure);
  check_halving(report, engine, *reader.tokenizer, text);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run_study(argc, argv, "18_sampling", study); }
