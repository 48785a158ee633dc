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

namespace folio::infer::server {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& why, std::string code = {}) {
  throw ApiError(400, fmt::format("'{}' {}", field, why), field, std::move(code));
}

// A value of another type than the field's.
[[noreturn]] void refuse_type(const std::string& field, const std::string& what) {
  refuse(field, "has to be " + what, "invalid_type");
}

// The fields of a request, as its schema has them: all else is unknown. null is as if it were not there.
class Fields {
 public:
  /// `unsupported` are fields that other servers take, and this one does not.
  Fields(const Json& body, const Json& schema, std::initializer_list<const char*> unsupported = {})
      : body_(body), fields_(schema["properties"]) {
    if (!body.is_object()) throw ApiError(400, "the body has to be a JSON object");
    for (const char* name : unsupported) {
      if (find(name) != nullptr) refuse(name, "is not supported");
    }
    std::vector<std::string> unknown;
    for (const auto& [name, value] : body_.items()) {
      if (!fields_.contains(name) && std::find(unsupported.begin(), unsupported.end(), name) == unsupported.end()) {
        unknown.push_back(core::printable(name));
      }
    }
    if (unknown.empty()) return;
    const std::string first = unknown.front();
    const size_t n = unknown.size();
    unknown.resize(std::min<size_t>(n, 10));
    throw ApiError(400,
                   fmt::format("unknown field{}: {}{}", n == 1 ? "" : "s", fmt::join(unknown, ", "),
                               n > unknown.size() ? fmt::format(" and {} more", n - unknown.size()) : ""),
                   first, "unknown_parameter");
  }

  [[nodiscard]] const Json* find(const std::string& name) const {
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] const Json& schema(const std::string& name) const { return fields_.at(name); }
  [[nodiscard]] double number(const std::string& name) const {
    const auto low = schema(name)["minimum"].get<double>();
    const auto high = schema(name)["maximum"].get<double>();
    const Json* value = find(name);
    if (value == nullptr) return schema(name)["default"];
    if (!value->is_number()) refuse_type(name, "a number");
    const auto number = value->get<double>();
    if (!(number >= low && number <= high)) {
      refuse(name, fmt::format("is {}, but has to be in [{}, {}]", number, low, high));
    }
    return number;
  }
  /// Nothing where it is not there and has no default. `low` and `high` are narrower limits than the schema's.
  [[nodiscard]] std::optional<int64_t> integer(const std::string& name, int64_t low = INT64_MIN,
                                               int64_t high = INT64_MAX) const {
    low = std::max(low, schema(name).value("minimum", INT64_MIN));
    high = std::min(high, schema(name).value("maximum", INT64_MAX));
    const Json* value = find(name);
    if (value == nullptr && !schema(name).contains("default")) return std::nullopt;
    if (value == nullptr) return schema(name)["default"].get<int64_t>();
    if (!value->is_number_integer()) refuse_type(name, "an integer");
    const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    if (huge || value->get<int64_t>() < low || value->get<int64_t>() > high) {
      refuse(name, fmt::format("is {}, but has to be in [{}, {}]", value->dump(), low, high));
    }
    return value->get<int64_t>();
  }
  [[nodiscard]] bool flag(const std::string& name) const {
    const Json* value = find(name);
    if (value == nullptr) return schema(name)["default"];
    if (!value->is_boolean()) refuse_type(name, "true or false");
    return value->get<bool>();
  }
  /// A field that is there for others, and may have this value alone.
  void only(const std::string& name, const Json& value) const {
    const Json* given = find(name);
    if (given != nullptr && *given != value) refuse(name, fmt::format("is not supported but as {}", value.dump()));
  }

 private:
  const Json& body_;
  const Json& fields_;
};

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

void take_model(const Fields& fields, const ServedModel& served) {
  const Json* model = fields.find("model");
  if (model == nullptr) return;
  if (!model->is_string()) refuse_type("model", "a text");
  if (*model != served.name) {
    throw ApiError(404,
                   fmt::format("there is no model {}; this server has {}",
                               core::printable(model->get_ref<const std::string&>()), served.name),
                   "model", "model_not_found");
  }
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
  take_model(fields, served);
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

data::ChatRole role_of(const Json& message) {
  const auto role = message.find("role");
  if (role != message.end()) {
    for (const data::ChatRole known : {data::ChatRole::System, data::ChatRole::User, data::ChatRole::Assistant}) {
      if (*role == data::chat_role_name(known)) return known;
    }
    if (*role == "developer") return data::ChatRole::System;
  }
  refuse("messages", "have to have a role: system, user or assistant");
}

const std::string* text_at(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// A text, or a list of parts that are texts.
std::string content_of(const Json& message) {
  if (const std::string* text = text_at(message, "content")) return *text;
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) refuse("messages", "have to have a content, a text");
  std::string text;
  for (const Json& part : *content) {
    const std::string* type = text_at(part, "type");
    const std::string* said = text_at(part, "text");
    if (type == nullptr || *type != "text" || said == nullptr) {
      refuse("messages", "have parts that are not texts, which is not supported");
    }
    text += *said;
  }
  return text;
}

std::vector<data::ChatMessage> messages_of(const Json* list) {
  if (list == nullptr || !list->is_array() || list->empty()) refuse("messages", "have to be a list of messages");
  std::vector<data::ChatMessage> messages;
  for (const Json& message : *list) {
    if (!message.is_object()) refuse("messages", "have to be objects with a role and a content");
    for (const auto& [key, value] : message.items()) {
      if (key != "role" && key != "content" && key != "name" && !value.is_null()) {
        refuse("messages", fmt::format("have a {}, which is not supported", core::printable(key)));
      }
    }
    if (message.contains("name") && !message["name"].is_null() && text_at(message, "name") == nullptr) {
      refuse("messages", "have a name that is no text");
    }
    messages.push_back({.role = role_of(message), .content = content_of(message)});
  }
  return messages;
}

Prompt chat_prompt(const Json* messages, const ServedModel& served) {
  if (!served.chat_template) {
    throw ApiError(400, fmt::format("{} has no chat template: it goes on with texts; ask /v1/completions", served.name),
                   "messages", "no_chat_template");
  }
  const auto checked = messages_of(messages);
  try {
    return {.tokens = data::encode_chat(served.tokenizer, *served.chat_template, checked), .text = ""};
  } catch (const core::Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
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

CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed) {
  const Fields fields(body, schema("CompletionRequest"), {"suffix"});
  CompletionRequest request;
  request.prompts = prompts_of(fields.find("prompt"), served);
  take_common(fields, served, random_seed, request);
  const int64_t room = room_of(request, served);
  request.echo = fields.flag("echo");
  request.options.max_tokens = std::min(*fields.integer("max_tokens", request.echo ? 0 : 1), room);
  if (const auto n = fields.integer("logprobs")) request.top_logprobs = static_cast<size_t>(*n);
  check_logprobs(request);
  return request;
}

CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed) {
  const Fields fields(body, schema("ChatRequest"),
                      {"tools", "tool_choice", "functions", "function_call", "audio", "modalities", "prediction",
                       "reasoning_effort", "parallel_tool_calls", "web_search_options"});
  CompletionRequest request;
  request.chat = true;
  request.prompts = {chat_prompt(fields.find("messages"), served)};
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
  fields.only("response_format", {{"type", "text"}});
  fields.only("store", false);
  return request;
}

std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("TokenizeRequest"));
  take_model(fields, served);
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  if ((messages == nullptr) == (prompt == nullptr)) refuse("prompt", "or 'messages' has to be there, one of them");
  if (messages != nullptr) return chat_prompt(messages, served).tokens;
  if (!prompt->is_string()) refuse_type("prompt", "a text");
  return encoded(*prompt, served).tokens;
}

std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("DetokenizeRequest"));
  take_model(fields, served);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) refuse_type("tokens", "a list of token ids");
  return prompt_of_ids(*tokens, "tokens", served).tokens;
}

}  // namespace folio::infer::server
