// generate: generates completions of prompts.
#include "infer/engine/generate.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "apps/ranks.h"
#include "apps/text_program.h"
#include "core/error.h"
#include "core/print_stderr.h"

namespace {

using namespace folio;

struct Options {
  apps::ModelFlags model;
  std::string prompt;
  std::string prompts_file;
  bool echo = true;
  bool json = false;
  bool parse_special = true;
  infer::GenerateOptions generate{.max_tokens = 256};
  std::string early_stopping;
  apps::FormFlags form;
};

void add_beam_flags(apps::Flags& app, infer::GenerateOptions& o, std::string& early_stopping) {
  app.group("Beam search");
  app.add_option("--beams W", o.beams.width, "beam search with W beams instead of sampling (default: off)")
      ->in_range(1, infer::kMostBeams);
  app.add_option("--beams-out", o.n, "number of best beams to print")->in_range(1, infer::kMostBeams)->needs("--beams");
  app.add_option("--length-penalty", o.beams.length_penalty,
                 "exponent of the length that divides a beam's log-probability; higher values favor longer outputs")
      ->in_range(-infer::kMostLengthPenalty, infer::kMostLengthPenalty)
      ->needs("--beams");
  app.add_flag("--early-stopping [=true|false|never]", early_stopping,
               "stop when W beams have finished; never: when no beam can improve; false: by a heuristic "
               "(default: false; true without a value)")
      ->one_of({"true", "false", "never"})
      ->needs("--beams");
}

// Checks and completes the flags of a beam search. Throws core::UsageError for flags that --beams does not support.
void take_beam_flags(const apps::Flags& app, Options& o) {
  infer::GenerateOptions& g = o.generate;
  if (app.count("--beams") == 0) return;
  const auto refuse = [](std::string_view flag) {
    throw core::UsageError(fmt::format("{} has no effect with --beams, which does not sample; leave one out", flag));
  };
  infer::SamplerOptions::visit_fields([&](std::string name, auto&&...) {
    std::ranges::replace(name, '_', '-');
    if (app.count("--" + name) > 0 && (name != "temperature" || g.sampler.temperature != 0.0F)) refuse("--" + name);
  });
  for (const char* flag : {"--logit-bias", "--seed", "--speculate"}) {
    if (app.count(flag) > 0) refuse(flag);
  }
  if (g.slide) throw core::UsageError("--slide is not supported with --beams; leave one out");
  if (g.n > g.beams.width) {
    throw core::UsageError(fmt::format("--beams-out is {}, expected at most --beams {}", g.n, g.beams.width));
  }
  if (o.early_stopping == "true") g.beams.early_stopping = infer::EarlyStopping::True;
  if (o.early_stopping == "never") g.beams.early_stopping = infer::EarlyStopping::Never;
}

void add_flags(apps::Flags& app, Options& o) {
  app.default_group("General");
  app.group("Prompt and output");
  app.add_option("-p,--prompt,prompt", o.prompt, "prompt (default: a newline)");
  app.add_option("--prompts FILE", o.prompts_file,
                 "file with one prompt per line, run as a batch; --json prints \"results\"")
      ->excludes("--prompt");
  app.add_flag("--parse-special,!--no-parse-special", o.parse_special,
               "parse special tokens in prompts, such as <|im_end|>, or read them as text (default: parse)");
  app.add_flag("--echo,!--no-echo", o.echo, "print the prompt before the output (default: on; off with --json)");
  app.add_flag("--json", o.json, "print one JSON object to stdout and nothing else");
  apps::add_model_flags(app, o.model);
  apps::add_rank_flags(app, o.model);
  app.group("Model");
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  apps::add_lora_flag(app, o.model.load);
  apps::add_generation_config_flag(app, o.model.load);
  app.group("Generation");
  app.add_option("-n,--max-tokens", o.generate.max_tokens, "maximum number of tokens to generate")->in_range(0, 1e9);
  app.add_flag("--slide", o.generate.slide, "at the end of the context, keep its last half and continue");
  apps::add_generation_flags(app, o.generate);
  apps::add_draft_flags(app, o.model.load);
  add_beam_flags(app, o.generate, o.early_stopping);
  app.group("Structured output");
  apps::add_form_flags(app, o.form);
}

// Returns the tokens/s of the whole batch. Prefill: all prompt tokens divided by the longest time to first token.
// Decode: all output tokens except each sequence's first, divided by the longest decode time of a sequence.
nlohmann::ordered_json speeds(const std::vector<std::vector<int32_t>>& prompts,
                              const std::vector<infer::GenerateResult>& results) {
  size_t prefilled = 0;
  size_t decoded = 0;
  for (const auto& prompt : prompts) prefilled += prompt.size();
  infer::GenerateResult slowest;
  for (const auto& r : results) {
    decoded += r.tokens.empty() ? 0 : r.tokens.size() - 1;
    slowest.prefill_seconds = std::max(slowest.prefill_seconds, r.prefill_seconds);
    slowest.decode_seconds = std::max(slowest.decode_seconds, r.decode_seconds);
  }
  return apps::speeds_json(prefilled, decoded, slowest);
}

void print_results(const Options& o, const std::vector<std::vector<int32_t>>& prompts,
                   const std::vector<infer::GenerateResult>& results) {
  const auto n = static_cast<size_t>(o.generate.n);
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    nlohmann::ordered_json json = apps::result_json(prompts[i], results[i * n]);
    for (size_t beam = 0; beam < n && o.generate.beams.width > 0; ++beam) {
      json["beams"].push_back(apps::result_json(prompts[i], results[i * n + beam]));
      json["beams"].back().erase("prompt_tokens");
    }
    texts.push_back(std::move(json));
  }
  nlohmann::ordered_json json = o.prompts_file.empty() ? texts[0] : nlohmann::ordered_json{{"results", texts}};
  json.update(speeds(prompts, results));
  json["seed"] = o.generate.sampler.seed;
  apps::print_json(json);
}

void print_summary(const Options& o, const std::vector<infer::GenerateResult>& results, double tokens_per_s) {
  size_t n_tokens = 0;
  size_t n_drafts = 0;
  size_t n_right = 0;
  std::vector<std::string> scores;
  for (const auto& result : results) {
    n_tokens += result.tokens.size();
    n_drafts += result.n_drafts;
    n_right += result.n_right;
    if (result.score) scores.push_back(fmt::format("{:.4f}", *result.score));
  }
  const std::string drafts = n_drafts == 0 ? "" : fmt::format("{} of {} draft tokens accepted, ", n_right, n_drafts);
  const std::string how = o.generate.beams.width > 0 ? fmt::format("scores {}", fmt::join(scores, " "))
                                                     : fmt::format("seed {}", o.generate.sampler.seed);
  core::print_stderr("\n{} tokens, {:.0f} tokens/s, {}finish_reason {}, {}\n", n_tokens, tokens_per_s, drafts,
                     infer::finish_reason_name(results[0].finish_reason), how);
}

// Returns the prompts of --prompts, or that of --prompt: "" for the default prompt.
std::vector<apps::FileLine> prompts_of(const apps::Flags& app, const Options& o) {
  if (app.count("--prompt") > 0 && o.prompt.empty()) {
    throw core::UsageError("the prompt is empty; leave it out to start from a newline");
  }
  if (o.prompts_file.empty()) return {{.text = o.prompt, .where = ""}};
  return apps::lines_of(o.prompts_file, "prompts");
}

int run(const apps::Flags& app, Options& o) {
  const std::vector<apps::FileLine> prompts = prompts_of(app, o);
  apps::complete_generation_options(app, o.generate);
  take_beam_flags(app, o);
  o.model.load.context = o.generate.context;
  // In the worst case, beams share no KV cache blocks and a step copies all of them, which needs two contexts per beam.
  o.model.load.n_contexts = std::ssize(prompts) * std::max<int64_t>(1, 2 * o.generate.beams.width);
  size_t& most = o.model.load.limits.max_sequences;
  most = std::min(most, static_cast<size_t>(o.model.load.n_contexts));
  apps::Ranks ranks(app, o.model);
  apps::complete_draft_source(o.generate.speculate, o.model.load);
  infer::LoadedModel model = ranks.open(o.model);
  if (ranks.follow(model)) return 0;
  const data::Tokenizer& tokenizer = model.tokenizer();
  if (o.generate.beams.width == 0) apps::take_sampler_defaults(app, model, o.generate.sampler);
  o.generate.form = apps::form_of(app, o.form, tokenizer);
  std::vector<std::vector<int32_t>> tokens;
  for (const apps::FileLine& prompt : prompts) {
    try {
      tokens.push_back(prompt.text.empty() ? tokenizer.default_prompt()
                                           : tokenizer.encode_prompt(prompt.text, {.parse_special = o.parse_special}));
      core::require(static_cast<int64_t>(tokens.back().size()) <= model.context(),
                    "the prompt has {} tokens, expected at most {} (the context); shorten it", tokens.back().size(),
                    model.context());
    } catch (const core::Error& error) {
      core::fail("{}{}", prompt.where, error.what());
    }
  }
  apps::report_repacking(model);
  o.generate.adapter = model.adapter();

  apps::watch_signals();
  const auto n = static_cast<size_t>(o.generate.n);
  const bool streams = prompts.size() * n == 1 && !o.json;  // several outputs would be interleaved
  if (streams && o.echo) apps::print_text(prompts[0].text);
  const auto results = infer::generate_batch(
      model.engine(), tokenizer, tokens, o.generate,
      streams ? [](size_t, std::string_view text) { apps::print_text(text); } : infer::OnText{}, apps::interrupted);
  if (o.json) {
    print_results(o, tokens, results);
  } else {
    if (streams) apps::print_text("\n");
    for (size_t i = 0; i < results.size() && !streams; ++i) {
      apps::print_text(fmt::format("{}{}\n{}", o.echo ? prompts[i / n].text : "", results[i].text,
                                   i + 1 < results.size() ? "\n" : ""));
    }
    print_summary(o, results, speeds(tokens, results)["decode_tokens_per_s"].get<double>());
  }
  const bool interrupted = std::any_of(results.begin(), results.end(), [](const infer::GenerateResult& r) {
    return r.finish_reason == infer::FinishReason::Interrupted;
  });
  return interrupted ? apps::interrupted_code() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Generate text from a prompt or a batch of prompts.", "generate");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
