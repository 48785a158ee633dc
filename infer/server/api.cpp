#include "infer/server/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/number.h"
#include "core/random.h"
#include "data/chat/chat_messages.h"
#include "infer/engine/conversation.h"
#include "infer/server/fields.h"
#include "infer/server/form_fields.h"

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

int32_t token_id(const std::string& field, const Json& id, const ServedModel& served) {
  if (id.is_number_integer() && id >= 0 && id < served.tokenizer.vocab_size()) return id.get<int32_t>();
  refuse(field, "has {}, which is not a token; the vocabulary has the IDs 0 to {}", core::printable(id.dump()),
         served.tokenizer.vocab_size() - 1);
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
    if (key.size() > 1 && key.front() == '0') {  // leading zeros would allow two biases of one token
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

// Returns additional variables of the chat template, in the format of data::RenderOptions.
std::string variables_of(const Fields& fields) {
  Json variables = Json::object();
  if (const std::string* effort = fields.text("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) refuse_type("chat_template_kwargs", "a JSON object");
    for (const char* own : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
      if (given->contains(own)) refuse("chat_template_kwargs", "must not set {}, which the server sets", own);
    }
    variables.update(*given);
  }
  return variables.empty() ? "" : variables.dump();
}

std::string take_model(const Fields& fields, const ServedModel& served) {
  const std::string* name = fields.text("model");
  if (name == nullptr) return served.name;
  require_model(*name, served);
  return *name;
}

constexpr const char* kForBeams = "requires \"use_beam_search\": true";  // error of options that only beams use

// Reads the number of choices per prompt, and the options of beam search.
void take_choices(const Fields& fields, const ServedModel& served, size_t n_prompts, CompletionRequest& request) {
  GenerateOptions& options = request.options;
  const int64_t most = served.max_choices / static_cast<int64_t>(n_prompts);
  options.n = *fields.integer("n", 1, most);
  if (!fields.flag("use_beam_search")) {
    fields.only("best_of", options.n);
    const Json* early = fields.find("early_stopping");
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
  const Json* early = fields.find("early_stopping");
  if (early == nullptr || *early == false) return;
  if (*early != true && *early != "never") refuse("early_stopping", "must be true, false or \"never\"");
  options.beams.early_stopping = *early == true ? EarlyStopping::True : EarlyStopping::Never;
}

// Reads the fields that all requests share.
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

// Returns how many tokens fit in the context after the longest prompt. Throws ApiError if none fits.
int64_t free_positions(const CompletionRequest& request, const ServedModel& served) {
  int64_t longest = 0;
  for (const Prompt& prompt : request.prompts) longest = std::max(longest, std::ssize(prompt.tokens));
  if (longest >= served.context) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, but must have fewer than the context's {}; shorten it",
                               longest, served.context),
                   request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return served.context - longest;
}

// Throws ApiError if a request would return too many log-probabilities. Sets n_logprob_bytes, which counts generated
// tokens only if the answer isn't streamed, and an echoed prompt once for all choices.
void check_logprobs(CompletionRequest& request) {
  constexpr size_t kMost = size_t{1} << 22U;
  constexpr size_t kTokenBytes = 64;  // size of TokenLogprob in bytes (replies.h)
  constexpr size_t kAlternativeBytes = 16;
  if (!request.top_logprobs) return;
  if (request.options.beams.width > 0) refuse("logprobs", "is not supported with 'use_beam_search'");
  const size_t n_each = kTokenBytes + *request.top_logprobs * kAlternativeBytes;
  size_t n_tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    if (request.echo) request.n_logprob_bytes += prompt.tokens.size() * n_each;
    if (!request.stream) {
      request.n_logprob_bytes += static_cast<size_t>(request.options.n * request.options.max_tokens) * n_each;
    }
    n_tokens += static_cast<size_t>(request.options.n) *
                (static_cast<size_t>(request.options.max_tokens) + (request.echo ? prompt.tokens.size() : 0));
  }
  const size_t n = n_tokens * (1 + *request.top_logprobs);
  if (n <= kMost) return;
  refuse(request.chat ? "top_logprobs" : "logprobs",
         "would return {} numbers for {} tokens, more than {}; request fewer tokens, choices or alternatives", n,
         n_tokens, kMost);
}

data::PromptOptions prompt_options(const Fields& fields) {
  return {.parse_special = fields.flag("parse_special"), .add_special = fields.flag("add_special_tokens")};
}

Prompt encoded(std::string text, data::PromptOptions options, const ServedModel& served,
               const core::WorkBudget& budget) {
  return made_for("prompt", "prompt", budget, [&] {
    budget.spend(text.size());
    const bool has_prefix = std::exchange(options.add_special, false);
    Prompt prompt{.tokens = served.tokenizer.encode_prompt(text, options),
                  .text = std::move(text),
                  .parse_special = options.parse_special};
    const size_t n = prompt.tokens.size();
    if (has_prefix) prompt.tokens = served.tokenizer.with_prefix(std::move(prompt.tokens));
    prompt.n_added = prompt.tokens.size() - n;
    return prompt;
  });
}

Prompt prompt_of_ids(const Json& list, const std::string& field, const ServedModel& served) {
  std::vector<int32_t> ids;
  for (const Json& id : list) ids.push_back(token_id(field, id, served));
  if (ids.empty()) refuse(field, "is an empty list of tokens");
  return {.tokens = std::move(ids), .text = "", .came_as_ids = true};
}

// Throws ApiError if the text of prompts given as token IDs is too long. A request's size doesn't limit it, since an ID
// of a few digits may be a token of hundreds of bytes.
void check_text_of(const std::string& field, std::span<const Prompt> prompts, const ServedModel& served) {
  constexpr size_t kMost = size_t{16} << 20U;
  size_t n = 0;
  for (const Prompt& prompt : prompts) {
    if (!prompt.came_as_ids) continue;
    for (const int32_t token : prompt.tokens) n += served.tokenizer.token_bytes(token).size();
  }
  if (n > kMost) refuse(field, "is {} bytes of text, more than {}; send fewer tokens", n, kMost);
}

// Returns the number of prompts in `prompt`: a string, a list of strings, token IDs, or a list of token-ID lists.
size_t n_prompts_of(const Json* prompt, const ServedModel& served) {
  if (prompt == nullptr || prompt->is_string()) return 1;
  if (!prompt->is_array() || prompt->empty()) refuse_type("prompt", "a string, token IDs, or a list of these");
  if (prompt->front().is_number()) return 1;
  if (std::ssize(*prompt) > served.max_choices)
    refuse("prompt", "has {} prompts, but at most {} are allowed", prompt->size(), served.max_choices);
  return prompt->size();
}

std::vector<Prompt> prompts_of(const Json* prompt, const data::PromptOptions& options, const ServedModel& served,
                               const core::WorkBudget& budget) {
  const auto one = [&](const Json& given) {
    if (given.is_array()) return prompt_of_ids(given, "prompt", served);
    if (!given.is_string()) refuse_type("prompt", "a string, token IDs, or a list of these");
    Prompt made = encoded(given, options, served, budget);
    if (made.tokens.empty()) {  // the model needs at least one token
      made.tokens = served.tokenizer.default_prompt();
      made.n_added = made.tokens.size();
    }
    return made;
  };
  if (prompt == nullptr) return {one("")};
  if (prompt->is_string() || prompt->front().is_number()) return {one(*prompt)};
  std::vector<Prompt> prompts;
  for (const Json& each : *prompt) prompts.push_back(one(each));
  return prompts;
}

std::vector<data::ChatMessage> messages_of(const Json* list) {
  try {
    return data::chat_messages(list == nullptr ? Json() : *list, data::MessageForm::OpenAi);
  } catch (const core::Error& error) {
    refuse("messages", "{}", error.what());
  }
}

void need_chat_template(const ServedModel& served) {
  if (served.chat_template) return;
  throw ApiError(400,
                 fmt::format("{} has no chat template, like most base models: use /v1/completions, or start the server "
                             "with --chat-template",
                             served.name),
                 "messages", "no_chat_template");
}

AnswerForms& forms_of(const std::string& field, const ServedModel& served) {
  if (served.forms == nullptr) refuse(field, "is not supported here");
  return *served.forms;
}

// Returns the model's format of calls; null for a conversation without tools and calls.
std::shared_ptr<CallWriting> writing_for(std::span<const data::ChatMessage> messages, bool has_tools,
                                         const ServedModel& served, const core::WorkBudget& budget) {
  const bool has_calls = std::ranges::any_of(
      messages, [](const data::ChatMessage& m) { return m.role == data::ChatRole::Tool || !m.calls.empty(); });
  if (!has_tools && !has_calls) return nullptr;
  const char* field = has_tools ? "tools" : "messages";
  return made_for(field, field, budget, [&] { return forms_of(field, served).calls(budget); });
}

// Renders a chat. `tools` and `variables` are as in data::RenderOptions. Sets `thinking` to the reasoning mode.
Prompt chat_prompt(std::span<const data::ChatMessage> messages, const std::string& tools, const CallWriting* writing,
                   const ServedModel& served, const core::WorkBudget& budget, const std::string& variables = {},
                   data::Thinking* thinking = nullptr) {
  return made_for("messages", "messages", budget, [&]() -> Prompt {
    const data::ChatTemplate& chat = *served.chat_template;
    data::ChatWithTools prepared{.messages = {messages.begin(), messages.end()}, .options = {}};
    if (writing != nullptr) prepared = data::with_tools(messages, tools, writing->format);
    prepared.options.budget = budget;
    prepared.options.variables = variables;
    const auto rendered = data::render_chat(served.tokenizer, chat, prepared.messages, prepared.options);
    for (const data::ChatPiece& piece : rendered) budget.spend(piece.text.size());
    if (thinking != nullptr) *thinking = data::thinking_of(served.tokenizer, chat, rendered);
    return {.tokens = data::encode_rendered(served.tokenizer, rendered), .text = ""};
  });
}

// Returns the work steps for parsing `value` with its keys in order: each key is compared with all keys before it.
uint64_t steps_in_order(const Json& value) {
  constexpr size_t kComparedPerStep = 16;
  uint64_t n = 1 + (value.is_object() ? value.size() * value.size() / kComparedPerStep : 0);
  if (!value.is_structured()) return n;
  for (const Json& part : value) n += steps_in_order(part);
  return n;
}

// Returns the body with its keys in order, or null if no field depends on the order.
core::OrderedJson in_order(const Fields& fields, const Json& body, std::string_view text,
                           const core::WorkBudget& budget) {
  return needs_order(fields) ? server::in_order(body, text, budget) : core::OrderedJson();
}

// Compiles the constraint (structured output) of a request without tools.
void take_form(const Fields& fields, const core::OrderedJson& ordered, const ServedModel& served,
               const core::WorkBudget& budget, CompletionRequest& request) {
  RequestedForm asked = requested_form(fields, ordered);
  if (asked.options.kind == forms::FormOptions::Kind::None) return;
  asked.options.thinking = request.thinking;
  request.options.form = made_for(asked.field, asked.place, budget,
                                  [&] { return forms_of(asked.field, served).form(asked.options, budget); });
}

// Compiles the constraint of a chat's answer (structured output), and sets the tools that the answer may call.
void take_answer(const Fields& fields, const core::OrderedJson& ordered, const RequestedTools& tools,
                 std::shared_ptr<CallWriting> writing, const ServedModel& served, const core::WorkBudget& budget,
                 CompletionRequest& request) {
  if (tools.calls.functions.empty()) return take_form(fields, ordered, served, budget, request);
  const RequestedForm answer = requested_form(fields, ordered);
  const auto calls = std::make_shared<forms::CallsForm>(tools.calls);
  calls->format = writing->format;
  if (calls->has_answer) calls->answer = answer.options;
  const forms::FormOptions options{
      .kind = forms::FormOptions::Kind::Calls, .calls = calls, .thinking = request.thinking};
  request.options.form = made_for("tools", "tools", budget, [&] { return writing->forms.form(options, budget); });
  request.tools = std::make_shared<ToolUse>(ToolUse{.writing = std::move(writing),
                                                    .has_answer = calls->has_answer,
                                                    .is_named = tools.is_named,
                                                    .most_calls = served.max_tool_calls});
}

void admit(const ParseOptions& options, size_t n_prompts, const CompletionRequest& request) {
  if (options.admit) options.admit(n_prompts, static_cast<size_t>(request.n_sequences()));
}

}  // namespace

std::string model_name(const std::string& path) {
  const auto file = core::absolute_path(path).lexically_normal();
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

void require_model(const std::string& name, const ServedModel& served) {
  if (name == served.name || std::ranges::find(served.adapters, name) != served.adapters.end()) return;
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

core::OrderedJson in_order(const Json& body, std::string_view text, const core::WorkBudget& budget) {
  const core::WorkBudget::Place place(budget, "body");
  try {
    budget.spend(steps_in_order(body));
    return core::parse_ordered_json(text.empty() ? body.dump() : std::string(text), "the body", "logit_bias");
  } catch (const core::TooMuchWork& error) {
    throw ApiError(400, error.what(), "", "too_much_work");
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error& error) {  // for example, an object has too many keys
    throw ApiError(400, error.what());
  }
}

CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                   std::string_view text, const ParseOptions& options) {
  const Fields fields(body, schema("CompletionRequest"), {"suffix"});
  CompletionRequest request;
  const Json* prompt = fields.find("prompt");
  const size_t n_prompts = n_prompts_of(prompt, served);
  take_common(fields, served, random_seed, n_prompts, request);
  request.echo = fields.flag("echo");
  const int64_t max_tokens = *fields.integer("max_tokens", request.echo ? 0 : 1);
  if (const auto n = fields.integer("logprobs")) request.top_logprobs = static_cast<size_t>(*n);
  admit(options, n_prompts, request);
  request.prompts = prompts_of(prompt, prompt_options(fields), served, options.budget);
  if (request.echo) {
    check_text_of("prompt", request.prompts, served);
    for (Prompt& one : request.prompts) {
      if (one.came_as_ids) one.text = served.tokenizer.decode(one.tokens);
    }
  }
  request.options.max_tokens = std::min(max_tokens, free_positions(request, served));
  check_logprobs(request);
  take_form(fields, in_order(fields, body, text, options.budget), served, options.budget, request);
  return request;
}

CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed, std::string_view text,
                             const ParseOptions& options) {
  const Fields fields(body, schema("ChatRequest"),
                      {"functions", "function_call", "audio", "modalities", "prediction", "web_search_options"});
  need_chat_template(served);
  CompletionRequest request;
  request.chat = true;
  request.path = "/v1/chat/completions";
  request.id_prefix = "chatcmpl-";
  take_common(fields, served, random_seed, 1, request);
  const auto old_name = fields.integer("max_tokens");
  const auto max_tokens = fields.integer("max_completion_tokens");
  const auto top = fields.integer("top_logprobs");
  if (fields.flag("logprobs")) {
    request.top_logprobs = static_cast<size_t>(top.value_or(0));
  } else if (top) {
    refuse("top_logprobs", "requires \"logprobs\": true");
  }
  request.include_reasoning = fields.flag("include_reasoning");
  const std::string variables = variables_of(fields);
  admit(options, 1, request);
  const std::vector<data::ChatMessage> messages = messages_of(fields.find("messages"));
  const core::OrderedJson ordered = in_order(fields, body, text, options.budget);
  const RequestedTools tools = requested_tools(fields, ordered);
  std::shared_ptr<CallWriting> writing = writing_for(messages, !tools.calls.functions.empty(), served, options.budget);
  request.prompts = {
      chat_prompt(messages, tools.list, writing.get(), served, options.budget, variables, &request.thinking)};
  if (!options.splits_reasoning) request.thinking = data::Thinking::None;
  const int64_t room = free_positions(request, served);
  request.options.max_tokens = std::min(max_tokens.value_or(old_name.value_or(room)), room);
  check_logprobs(request);
  take_answer(fields, ordered, tools, std::move(writing), served, options.budget, request);
  end_at_turn(served.tokenizer, *served.chat_template, request.options);
  return request;
}

std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served, const core::WorkBudget& budget) {
  const Fields fields(body, schema("TokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  if ((messages == nullptr) == (prompt == nullptr)) refuse("prompt", "or 'messages' is required, and not both");
  if (messages != nullptr) {
    need_chat_template(served);
    for (const char* field : {"parse_special", "add_special_tokens"}) {
      if (fields.find(field) != nullptr)
        refuse(field, "is only supported with 'prompt'; for 'messages', the chat template decides");
    }
    const auto checked = messages_of(messages);
    return chat_prompt(checked, "", writing_for(checked, false, served, budget).get(), served, budget).tokens;
  }
  if (!prompt->is_string()) refuse_type("prompt", "a string");
  const data::PromptOptions options = prompt_options(fields);
  Prompt made = encoded(*prompt, options, served, budget);
  return made.tokens.empty() && options.add_special ? served.tokenizer.default_prompt() : std::move(made.tokens);
}

std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("DetokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) refuse_type("tokens", "a list of token IDs");
  Prompt prompt = prompt_of_ids(*tokens, "tokens", served);
  check_text_of("tokens", std::span(&prompt, 1), served);
  return std::move(prompt.tokens);
}

}  // namespace folio::infer::server
