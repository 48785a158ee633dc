#include "apps/text_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <sstream>

#include "core/error.h"
#include "core/file_io.h"

namespace folio::apps {

namespace {

// Parses values of --logit-bias such as "198=-5.5".
std::vector<infer::SamplerOptions::Bias> biases_of(const std::vector<std::string>& all) {
  std::vector<infer::SamplerOptions::Bias> biases;
  for (const std::string& text : all) {
    const size_t equals = text.find('=');
    const std::string_view view = text;
    const auto token = signed_number_of<int32_t>(view.substr(0, std::min(equals, view.size())));
    const auto bias = signed_number_of<float>(equals == std::string::npos ? "" : view.substr(equals + 1));
    if (!token || *token < 0 || !bias || !(std::abs(*bias) <= 100.0F))
      throw core::UsageError("--logit-bias: \"" + text + "\", expected ID=BIAS with a bias in [-100, 100]");
    biases.push_back({.token = *token, .bias = *bias});
  }
  return biases;
}

}  // namespace

void add_sampler_flags(Flags& app, infer::SamplerOptions& s) {
  infer::SamplerOptions::visit_fields(
      [&](std::string name, auto member, double low, double high, double, const char* help) {
        std::ranges::replace(name, '_', '-');
        std::string flags = "--" + name;
        if (name == "temperature") flags += ",--temp";
        if (name == "repetition-penalty") flags = "--repeat-penalty," + flags;  // llama.cpp's name
        if (name.ends_with("-p")) flags += " P";
        app.add_option(flags, s.*member, help)->in_range(low, high);
      });
  app.add_list_function(
      "--logit-bias ID=BIAS", [&s](const std::vector<std::string>& all) { s.logit_bias = biases_of(all); },
      "bias added to the logit of token ID (-100 to 100; repeatable)");
}

void add_generation_flags(Flags& app, infer::GenerateOptions& options) {
  add_sampler_flags(app, options.sampler);
  app.add_option("-s,--seed", options.sampler.seed, "sampler seed (default: random, printed)")
      ->in_range(0, 1.8e19)
      ->default_str("");
  app.add_list_function(
      "--stop", [&options](const std::vector<std::string>& all) { options.stops = all; },
      "stop string: generation ends before it (repeatable)");
  app.add_option("-c,--context", options.context, "context size in tokens (default: the model's)")
      ->in_range(2, 1 << 24);
  app.group("Speculative decoding");
  app.add_option("--speculate", options.speculate,
                 "maximum draft tokens per step (see --draft); the output does not change; 0: off")
      ->in_range(0, 64);
}

void complete_generation_options(const Flags& app, infer::GenerateOptions& options) {
  for (const std::string& stop : options.stops) {
    if (stop.empty()) throw core::UsageError("--stop: the string is empty; leave out the flag instead");
  }
  if (app.count("--seed") == 0) options.sampler.seed = std::random_device{}();
}

void take_sampler_defaults(const Flags& app, const infer::LoadedModel& model, infer::SamplerOptions& options) {
  const infer::SamplerOptions defaults = model.sampler_defaults(options);
  infer::SamplerOptions::visit_fields([&](std::string name, auto member, auto&&...) {
    std::ranges::replace(name, '_', '-');
    if (app.count("--" + name) == 0) options.*member = defaults.*member;
  });
  print_sampler_defaults(model);
}

std::vector<FileLine> lines_of(const std::string& file, const char* what) {
  std::vector<FileLine> lines;
  std::istringstream text(core::read_text_file(file, size_t{64} << 20U));
  size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back({.text = line, .where = fmt::format("{}:{}: ", file, number)});
  }
  core::require(!lines.empty(), "{}: no {} found; write one per line", file, what);
  return lines;
}

void add_form_flags(Flags& app, FormFlags& flags) {
  app.add_option("--json-schema FILE", flags.json_schema, "JSON schema file that the output must match");
  app.add_option("--regex PATTERN", flags.regex, "regular expression (RE2 syntax) that the whole output must match")
      ->excludes("--json-schema");
  app.add_option("--grammar FILE", flags.grammar, "GBNF grammar file (llama.cpp's format) that the output must match")
      ->excludes("--json-schema")
      ->excludes("--regex");
  app.add_option("--choice", flags.choices, "allowed output (repeatable)")
      ->excludes("--json-schema")
      ->excludes("--regex")
      ->excludes("--grammar");
}

std::shared_ptr<infer::forms::Form> form_of(const Flags& app, const FormFlags& flags,
                                            const data::Tokenizer& tokenizer) {
  using Kind = infer::forms::FormOptions::Kind;
  constexpr size_t kMostBytes = size_t{16} << 20U;
  infer::forms::FormOptions options;
  std::string where;
  const auto file = [&](Kind kind, const std::string& path) {
    options = {.kind = kind, .text = core::read_text_file(path, kMostBytes)};
    where = path;
  };
  if (app.count("--json-schema") > 0) file(Kind::JsonSchema, flags.json_schema);
  if (app.count("--grammar") > 0) file(Kind::Grammar, flags.grammar);
  if (app.count("--regex") > 0) {
    options = {.kind = Kind::Regex, .text = flags.regex};
    where = "--regex";
  }
  if (app.count("--choice") > 0) {
    options = {.kind = Kind::Choice, .choices = flags.choices};
    where = "--choice";
  }
  if (options.kind == Kind::None) return nullptr;
  try {
    return infer::forms::make_form(options, std::make_shared<const infer::forms::TokenTree>(tokenizer));
  } catch (const core::Error& error) {
    core::fail("{}: {}", where, error.what());
  }
}

nlohmann::ordered_json result_json(const std::vector<int32_t>& prompt, const infer::GenerateResult& result) {
  nlohmann::ordered_json json = {{"prompt_tokens", prompt},
                                 {"tokens", result.tokens},
                                 {"text", result.text},
                                 {"finish_reason", infer::finish_reason_name(result.finish_reason)}};
  if (result.score) json["score"] = *result.score;
  return json;
}

nlohmann::ordered_json speeds_json(size_t prefilled, size_t decoded, const infer::GenerateResult& result) {
  const auto rate = [](size_t n, double seconds) {
    return n == 0 || seconds <= 0 ? 0.0 : static_cast<double>(n) / seconds;
  };
  return {{"prefill_tokens_per_s", rate(prefilled, result.prefill_seconds)},
          {"decode_tokens_per_s", rate(decoded, result.decode_seconds)}};
}

void print_text(std::string_view text) {
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stdout));
  flush_stdout();  // throws if stdout is a closed pipe, which ends the generation
}

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace folio::apps
