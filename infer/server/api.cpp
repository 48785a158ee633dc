#include "infer/server/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "infer/engine/conversation.h"
#include "infer/server/chat_messages.h"
#include "infer/server/fields.h"
#include "infer/server/form_fields.h"

namespace folio::infer::server {
namespace {

std::vector<std::string> stops_of(const Json* value) {
  constexpr size_t kMost = 16;
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (const Json& stop : *value) {
      if (!stop.is_string()) refuse_type("stop", "a text or a list of texts");
      stops.push_back(stop.get<std::string>());
    }
  } else {
    refuse_type("stop", "a text or a list of texts");
  }
  if (stops.size() > kMost)
    refuse("stop", fmt::format("has {} texts, but at most {} are possible", stops.size(), kMost));
  for (const std::string& stop : stops) {
    if (stop.empty()) refuse("stop", "has an empty text");
  }
  return stops;
}

std::vector<SamplerOptions::Bias> biases_of(const Json* value, const ServedModel& served) {
  std::vector<SamplerOptions::Bias> biases;
  if (value == nullptr) return biases;
  if (!value->is_object()) refuse_type("logit_bias", "an object of token ids and biases");
  for (const auto& [key, bias] : value->items()) {
    int64_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= served.tokenizer.vocab_size()) {
      refuse("logit_bias", fmt::format("names token {}, but the vocabulary has the ids 0 to {}", core::printable(key),
                                       served.tokenizer.vocab_size() - 1));
    }
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= 100.0)) {
      refuse("logit_bias", fmt::format("of token {} has to be a number in [-100, 100]", token));
    }
    biases.push_back({.token = static_cast<int32_t>(token), .bias = bias.get<float>()});
  }
  return biases;
}

// The name of what is asked for.
std::string take_model(const Fields& fields, const ServedModel& served) {
  const Json* model = fields.find("model");
  if (model == nullptr) return served.name;
  if (!model->is_string()) refuse_type("model", "a text");
  const auto& name = model->get_ref<const std::string&>();
  if (name == served.name || std::ranges::find(served.adapters, name) != served.adapters.end()) return name;
  constexpr size_t kMostListed = 16;
  const size_t n = std::min(kMostListed, served.adapters.size());
  throw ApiError(
      404,
      fmt::format("there is no model {}; this server has {}{}{}{}", core::printable(name), served.name,
                  n > 0 ? ", " : "",
                  fmt::join(served.adapters.begin(), served.adapters.begin() + static_cast<std::ptrdiff_t>(n), ", "),
                  n < served.adapters.size() ? ", …" : ""),
      "model", "model_not_found");
}

constexpr const char* kForBeams = "is for \"use_beam_search\": true";  // but for its default, which clients send

// Several texts of each prompt: choices, or the best of the beams.
void take_choices(const Fields& fields, const ServedModel& served, CompletionRequest& request) {
  GenerateOptions& options = request.options;
  const int64_t most = served.max_choices / std::ssize(request.prompts);
  options.n = *fields.integer("n", 1, most);
  if (!fields.flag("use_beam_search")) {
    fields.only("best_of", options.n);
    const Json* early = fields.find("early_stopping");
    if (fields.number("length_penalty") != BeamOptions{}.length_penalty) refuse("length_penalty", kForBeams);
    if (early != nullptr && *early != false) refuse("early_stopping", kForBeams);
    return;
  }
  if (request.stream) {
    refuse("stream", "is not possible with 'use_beam_search': which text is the best is known at the end");
  }
  if (fields.find("logit_bias") != nullptr) refuse("logit_bias", "does nothing with 'use_beam_search'; leave it out");
  SamplerOptions::visit_fields([&](const std::string& name, auto, double, double, double otherwise, const char*) {
    const double value = fields.number(name);
    if (name == "repeat_last_n" || value == otherwise || (name == "temperature" && value == 0.0)) return;
    refuse(name, "does nothing with 'use_beam_search', which draws no tokens; leave it out");
  });
  options.n = *fields.integer("n", 1, std::min(most, kMostBeams));
  options.beams.width = fields.integer("best_of", options.n, std::min(most, kMostBeams)).value_or(options.n);
  options.beams.length_penalty = fields.number("length_penalty");
  const Json* early = fields.find("early_stopping");
  if (early == nullptr || *early == false) return;
  if (*early != true && *early != "never") refuse("early_stopping", "has to be true, false or \"never\"");
  options.beams.early_stopping = *early == true ? EarlyStopping::True : EarlyStopping::Never;
}

// What both kinds of requests have.
void take_common(const Fields& fields, const ServedModel& served, uint64_t random_seed, CompletionRequest& request) {
  request.model = take_model(fields, served);
  SamplerOptions& s = request.options.sampler;
  SamplerOptions::visit_fields([&](const char* name, auto member, auto&&...) {
    using Number = std::remove_reference_t<decltype(s.*member)>;
    if constexpr (std::is_integral_v<Number>) {
      s.*member = static_cast<Number>(*fields.integer(name));
    } else {
      s.*member = static_cast<Number>(fields.number(name));
    }
  });
  s.logit_bias = biases_of(fields.find("logit_bias"), served);
  s.seed = static_cast<uint64_t>(fields.integer("seed").value_or(static_cast<int64_t>(random_seed)));
  request.options.stops = stops_of(fields.find("stop"));
  request.options.speculate = served.speculate;
  request.options.context = served.context;
  request.stream = fields.flag("stream");
  take_choices(fields, served, request);
  if (const Json* options = fields.find("stream_options")) {
    if (!request.stream) refuse("stream_options", "is for \"stream\": true");
    request.include_usage = Fields(*options, fields.schema("stream_options")).flag("include_usage");
  }
  if (const Json* user = fields.find("user"); user != nullptr && !user->is_string()) refuse_type("user", "a text");
}

// So many tokens fit behind the longest prompt.
int64_t room_of(const CompletionRequest& request, const ServedModel& served) {
  int64_t longest = 0;
  for (const Prompt& prompt : request.prompts) longest = std::max(longest, std::ssize(prompt.tokens));
  if (longest >= served.context) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, but the context is {}, and an answer needs at least one",
                               longest, served.context),
                   request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return served.context - longest;
}

// An answer lies in memory as a whole.
void check_logprobs(const CompletionRequest& request) {
  constexpr size_t kMost = size_t{1} << 22U;
  if (!request.top_logprobs) return;
  if (request.options.beams.width > 0) refuse("logprobs", "are not possible with 'use_beam_search'");
  size_t n_tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    n_tokens += static_cast<size_t>(request.options.n) *
                (static_cast<size_t>(request.options.max_tokens) + (request.echo ? prompt.tokens.size() : 0));
  }
  const size_t n = n_tokens * (1 + *request.top_logprobs);
  if (n <= kMost) return;
  refuse(request.chat ? "top_logprobs" : "logprobs",
         fmt::format("would be {} numbers for {} tokens, more than {}; ask for fewer tokens, choices or alternatives",
                     n, n_tokens, kMost));
}

Prompt encoded(std::string text, const ServedModel& served) {
  try {
    const std::vector<int32_t> ids = served.tokenizer.encode_with_prefix(text);
    return {.tokens = ids.empty() ? served.tokenizer.default_prompt() : ids, .text = std::move(text)};
  } catch (const core::Error& error) {
    throw ApiError(400, error.what(), "prompt");
  }
}

Prompt prompt_of_ids(const Json& list, const std::string& field, const ServedModel& served) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool fits = id.is_number_integer() && id >= 0 && id < served.tokenizer.vocab_size();
    if (!fits) {
      refuse(field, fmt::format("has {}, which is no token: the vocabulary has the ids 0 to {}",
                                core::printable(id.dump()), served.tokenizer.vocab_size() - 1));
    }
    ids.push_back(id.get<int32_t>());
  }
  if (ids.empty()) refuse(field, "is an empty list of tokens");
  return {.tokens = ids, .text = served.tokenizer.decode(ids)};
}

// A text, a list of texts, token ids, or a list of those.
std::vector<Prompt> prompts_of(const Json* prompt, const ServedModel& served) {
  if (prompt == nullptr) return {encoded("", served)};
  if (prompt->is_string()) return {encoded(*prompt, served)};
  if (!prompt->is_array() || prompt->empty()) refuse_type("prompt", "a text, token ids, or a list of these");
  if (prompt->front().is_number()) return {prompt_of_ids(*prompt, "prompt", served)};
  if (std::ssize(*prompt) > served.max_choices) {
    refuse("prompt", fmt::format("has {} texts, but at most {} are possible", prompt->size(), served.max_choices));
  }
  std::vector<Prompt> prompts;
  for (const Json& one : *prompt) {
    if (one.is_string()) {
      prompts.push_back(encoded(one, served));
    } else if (one.is_array()) {
      prompts.push_back(prompt_of_ids(one, "prompt", served));
    } else {
      refuse_type("prompt", "a text, token ids, or a list of these");
    }
  }
  return prompts;
}

void need_chat_template(const ServedModel& served) {
  if (served.chat_template) return;
  throw ApiError(400, fmt::format("{} has no chat template, like most base models: use /v1/completions, or start the server "
                             "with --chat-template",
                             served.name),
                 "messages", "no_chat_template");
}

AnswerForms& forms_of(const std::string& field, const ServedModel& served) {
  if (served.forms == nullptr) refuse(field, "is not supported here");
  return *served.forms;
}

// Null for a conversation without tools and calls.
std::shared_ptr<CallWriting> writing_for(std::span<const data::ChatMessage> messages, bool has_tools,
                                         const ServedModel& served) {
  const bool has_calls = std::ranges::any_of(
      messages, [](const data::ChatMessage& m) { return m.role == data::ChatRole::Tool || !m.calls.empty(); });
  if (!has_tools && !has_calls) return nullptr;
  const char* field = has_tools ? "tools" : "messages";
  return made_for(field, [&] { return forms_of(field, served).calls(); });
}

// `tools` is as data::RenderOptions has it.
Prompt chat_prompt(std::span<const data::ChatMessage> messages, const std::string& tools, const CallWriting* writing,
                   const ServedModel& served) {
  return made_for("messages", [&]() -> Prompt {
    const data::ChatTemplate& chat = *served.chat_template;
    return {.tokens = writing == nullptr ? data::encode_chat(served.tokenizer, chat, messages)
                                         : data::encode_chat(served.tokenizer, chat, messages, tools, writing->format),
            .text = ""};
  });
}

// With its keys in their order; null where nothing asks for that.
core::OrderedJson in_order(const Fields& fields, const Json& body, std::string_view text) {
  if (!needs_order(fields)) return {};
  try {
    return core::parse_ordered_json(text.empty() ? body.dump() : std::string(text), "the body", "logit_bias");
  } catch (const core::Error& error) {  // an object has too many keys
    throw ApiError(400, error.what());
  }
}

// Of a request without tools.
void take_form(const Fields& fields, const core::OrderedJson& ordered, const ServedModel& served,
               CompletionRequest& request) {
  const AskedForm asked = asked_form(fields, ordered);
  if (asked.options.kind == forms::FormOptions::Kind::None) return;
  request.options.form = made_for(asked.field, [&] { return forms_of(asked.field, served).form(asked.options); });
}

// The messages, and with tools what the answer may be.
void take_chat(const Fields& fields, const Json& body, std::string_view text, const ServedModel& served,
               CompletionRequest& request) {
  const std::vector<data::ChatMessage> messages = messages_of(fields.find("messages"));
  const core::OrderedJson ordered = in_order(fields, body, text);
  const AskedTools tools = asked_tools(fields, ordered);
  std::shared_ptr<CallWriting> writing = writing_for(messages, !tools.functions.empty(), served);
  request.prompts = {chat_prompt(messages, tools.list, writing.get(), served)};
  if (tools.functions.empty()) return take_form(fields, ordered, served, request);
  const AskedForm answer = asked_form(fields, ordered);
  forms::FormOptions options{.kind = forms::FormOptions::Kind::Calls};
  options.calls = std::make_shared<forms::CallsForm>(
      forms::CallsForm{.format = writing->format,
                       .functions = tools.functions,
                       .several = tools.several,
                       .has_answer = tools.has_answer,
                       .answer = tools.has_answer ? answer.options : forms::FormOptions()});
  request.options.form = made_for("tools", [&] { return writing->forms.form(options); });
  request.tools = std::make_shared<ToolUse>(
      ToolUse{.writing = std::move(writing), .has_answer = tools.has_answer, .is_named = tools.is_named});
}

}  // namespace

std::string model_name(const std::string& path) {
  const auto file = std::filesystem::absolute(path).lexically_normal();
  if (file.filename() == "model.gguf") return file.parent_path().filename().string();
  return file.has_extension() ? file.stem().string() : file.filename().string();
}

Json ApiError::json() const {
  const char* type = status_ == 401 || status_ == 403 ? "authentication_error"
                     : status_ == 429                 ? "rate_limit_error"
                     : status_ >= 500                 ? "server_error"
                                                      : "invalid_request_error";
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error", {{"message", what()}, {"type", type}, {"param", or_null(param_)}, {"code", or_null(code_)}}}};
}

CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                   std::string_view text) {
  const Fields fields(body, schema("CompletionRequest"), {"suffix"});
  CompletionRequest request;
  request.prompts = prompts_of(fields.find("prompt"), served);
  take_form(fields, in_order(fields, body, text), served, request);
  take_common(fields, served, random_seed, request);
  const int64_t room = room_of(request, served);
  request.echo = fields.flag("echo");
  request.options.max_tokens = std::min(*fields.integer("max_tokens", request.echo ? 0 : 1), room);
  if (const auto n = fields.integer("logprobs")) request.top_logprobs = static_cast<size_t>(*n);
  check_logprobs(request);
  return request;
}

CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed, std::string_view text) {
  const Fields fields(
      body, schema("ChatRequest"),
      {"functions", "function_call", "audio", "modalities", "prediction", "reasoning_effort", "web_search_options"});
  need_chat_template(served);
  CompletionRequest request;
  request.chat = true;
  take_chat(fields, body, text, served, request);
  take_common(fields, served, random_seed, request);
  const int64_t room = room_of(request, served);
  const auto old_name = fields.integer("max_tokens");
  request.options.max_tokens =
      std::min(fields.integer("max_completion_tokens").value_or(old_name.value_or(room)), room);
  const auto top = fields.integer("top_logprobs");
  if (fields.flag("logprobs")) {
    request.top_logprobs = static_cast<size_t>(top.value_or(0));
  } else if (top) {
    refuse("top_logprobs", "is for \"logprobs\": true");
  }
  check_logprobs(request);
  end_at_turn(served.tokenizer, *served.chat_template, request.options);
  fields.only("store", false);
  return request;
}

std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("TokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  if ((messages == nullptr) == (prompt == nullptr)) refuse("prompt", "or 'messages' has to be there, one of them");
  if (messages != nullptr) {
    need_chat_template(served);
    const auto checked = messages_of(messages);
    return chat_prompt(checked, "", writing_for(checked, false, served).get(), served).tokens;
  }
  if (!prompt->is_string()) refuse_type("prompt", "a text");
  return encoded(*prompt, served).tokens;
}

std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("DetokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) refuse_type("tokens", "a list of token ids");
  return prompt_of_ids(*tokens, "tokens", served).tokens;
}

}  // namespace folio::infer::server
