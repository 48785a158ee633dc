// Parses the options of a request: model, sampling, stop strings, choices, beams, and variables of the chat template.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/error.h"
#include "core/number.h"
#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

std::vector<std::string> stops_of(const Json* value) {
  constexpr size_t kMost = 16;
  std::vector<std::string> stops;
  if (value == nullptr) return stops;
  for (const Json& stop : value->is_array() ? *value : Json::array({*value})) {
    if (!stop.is_string()) refuse_type("stop", "a string or a list of strings");
    if (stop == "") refuse("stop", "has an empty string");
    stops.push_back(stop);
  }
  if (stops.size() > kMost) refuse("stop", "has {} strings, but at most {} are allowed", stops.size(), kMost);
  return stops;
}

std::vector<SamplerOptions::Bias> biases_of(const Json* value, const ServedModel& served) {
  std::vector<SamplerOptions::Bias> biases;
  if (value == nullptr) return biases;
  if (!value->is_object()) refuse_type("logit_bias", "an object of token IDs and biases");
  for (const auto& [key, bias] : value->items()) {
    const int64_t token = core::number_of<int64_t>(key).value_or(-1);
    if (token < 0 || token >= served.tokenizer.vocab_size()) {
      refuse("logit_bias", "has token {}, but the vocabulary has the IDs 0 to {}", core::printable(key),
             served.tokenizer.vocab_size() - 1);
    }
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= 100.0))
      refuse("logit_bias", "of token {} must be a number in [-100, 100]", token);
    if (key != std::to_string(token)) {  // 01 and -0 would allow two keys for one token
      refuse("logit_bias", "has token {} as {}; remove the leading zeros", token, core::printable(key));
    }
    biases.push_back({.token = static_cast<int32_t>(token), .bias = bias.get<float>()});
  }
  return biases;
}

std::vector<int32_t> end_tokens_of(const Json* value, const ServedModel& served) {
  constexpr size_t kMost = 1024;
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  if (!value->is_array()) refuse_type("stop_token_ids", "a list of token IDs");
  if (value->size() > kMost)
    refuse("stop_token_ids", "has {} tokens, but at most {} are allowed", value->size(), kMost);
  for (const Json& id : *value) ids.push_back(token_id("stop_token_ids", id, served));
  return ids;
}

// Checks the types of fields that OpenAI's clients may send and that have no effect here.
void check_unused(const Fields& fields) {
  for (const char* name :
       {"user", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "verbosity"}) {
    static_cast<void>(fields.text(name));
  }
  const Json* metadata = fields.find("metadata");
  if (metadata != nullptr && !metadata->is_object()) refuse_type("metadata", "a JSON object");
  fields.only("store", false);
}

constexpr const char* kForBeams = "requires \"use_beam_search\": true";  // error for options that only beam search has

void take_choices(const Fields& fields, const ServedModel& served, size_t n_prompts, CompletionRequest& request) {
  GenerateOptions& options = request.options;
  const int64_t most = served.max_choices / static_cast<int64_t>(n_prompts);
  options.n = *fields.integer("n", 1, most);
  const Json* early = fields.find("early_stopping");
  if (!fields.flag("use_beam_search")) {
    fields.only("best_of", options.n);
    if (fields.number("length_penalty") != BeamOptions{}.length_penalty) refuse("length_penalty", kForBeams);
    if (early != nullptr && *early != false) refuse("early_stopping", kForBeams);
    return;
  }
  if (request.stream)
    refuse("stream", "is not supported with 'use_beam_search', which only knows the best sequence at the end");
  if (fields.find("logit_bias") != nullptr) refuse("logit_bias", "has no effect with 'use_beam_search'; remove it");
  SamplerOptions::visit_fields([&](const std::string& name, auto, double, double, double otherwise, const char*) {
    const double value = fields.number(name);
    if (name == "repeat_last_n" || value == otherwise || (name == "temperature" && value == 0.0)) return;
    if (name == "top_k" && value <= 0.0) return;
    refuse(name, "has no effect with 'use_beam_search', which doesn't sample; remove it");
  });
  options.n = *fields.integer("n", 1, std::min(most, kMostBeams));
  options.beams.width = fields.integer("best_of", options.n, std::min(most, kMostBeams)).value_or(options.n);
  options.beams.length_penalty = fields.number("length_penalty");
  if (early == nullptr || *early == false) return;
  if (*early != true && *early != "never") refuse("early_stopping", "must be true, false or \"never\"");
  options.beams.early_stopping = *early == true ? EarlyStopping::True : EarlyStopping::Never;
}

}  // namespace

std::string take_model(const Fields& fields, const ServedModel& served) {
  const std::string* name = fields.text("model");
  if (name == nullptr) return served.name;
  require_model(*name, served);
  return *name;
}

void take_common(const Fields& fields, const ServedModel& served, uint64_t random_seed, size_t n_prompts,
                 CompletionRequest& request) {
  request.model = take_model(fields, served);
  SamplerOptions& s = request.options.sampler;
  SamplerOptions::visit_fields([&](const char* name, auto member, auto&&...) {
    using Number = std::remove_reference_t<decltype(s.*member)>;
    s.*member = served.sampler.*member;
    if (fields.find(name) == nullptr) return;
    if constexpr (std::is_integral_v<Number>) {
      s.*member = static_cast<Number>(*fields.integer(name));
    } else {
      s.*member = static_cast<Number>(fields.number(name));
    }
  });
  s.logit_bias = biases_of(fields.find("logit_bias"), served);
  s.seed = static_cast<uint64_t>(fields.integer("seed").value_or(static_cast<int64_t>(random_seed)));
  request.options.stops = stops_of(fields.find("stop"));
  request.options.end_tokens = end_tokens_of(fields.find("stop_token_ids"), served);
  request.options.speculate = served.speculate;
  request.options.context = served.context;
  request.stream = fields.flag("stream");
  take_choices(fields, served, n_prompts, request);
  if (const Json* options = fields.find("stream_options")) {
    if (!request.stream) refuse("stream_options", "requires \"stream\": true");
    request.include_usage = Fields(*options, fields.schema("stream_options")).flag("include_usage");
  }
  check_unused(fields);
}

std::string variables_of(const Fields& fields, const Ordered& ordered) {
  Ordered variables = Ordered::object();
  if (const std::string* effort = fields.text("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) refuse_type("chat_template_kwargs", "a JSON object");
    for (const char* own : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
      if (given->contains(own)) refuse("chat_template_kwargs", "must not set {}, which the server sets", own);
    }
    variables.update(ordered.at("chat_template_kwargs"));
  }
  return variables.empty() ? "" : variables.dump();
}

}  // namespace folio::infer::server
