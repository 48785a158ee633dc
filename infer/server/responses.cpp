// OpenAI's Responses API on top of chat completions: requests are translated to chats, and answers are written as items
// and events. Nothing is stored, so each request must contain the whole conversation. Source: OpenAI's API reference,
// "Responses".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "infer/server/api.h"
#include "infer/server/fields.h"
#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

// ---- Requests: translation to chat requests ----

const std::string& text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) refuse("input", "has an item without a string {}", key);
  return found->get_ref<const std::string&>();
}

bool has(const Json& object, const char* key) { return object.contains(key) && !object.at(key).is_null(); }

// Returns a message's text. `content` is the text or a list of parts, whose texts are concatenated.
std::string content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse("input", "has an item whose content is neither a string nor a list of parts");
  std::string text;
  for (const Json& part : content) {
    const std::string type = part.is_object() ? part.value("type", Json()).dump() : "";
    if (type == "\"refusal\"") {
      text += text_of(part, "refusal");
    } else if (type.ends_with("text\"")) {  // input_text, output_text, reasoning_text, summary_text
      text += text_of(part, "text");
    } else {
      refuse("input", "has a part of type {}, but only text is supported", core::printable(type, 80));
    }
  }
  return text;
}

// Collects a conversation's messages for a chat request. Successive assistant items become one message.
class Messages {
 public:
  void add(const Json& item) {
    if (!item.is_object()) refuse_type("input", "a text or a list of items");
    const std::string type = has(item, "type") ? text_of(item, "type") : "message";
    if (type == "message") {
      add_message(text_of(item, "role"), content_of(item.value("content", Json())));
    } else if (type == "function_call") {
      assistant("tool_calls", false)["tool_calls"].push_back(
          {{"id", text_of(item, "call_id")},
           {"type", "function"},
           {"function", {{"name", text_of(item, "name")}, {"arguments", text_of(item, "arguments")}}}});
    } else if (type == "function_call_output") {
      all_.push_back({{"role", "tool"},
                      {"tool_call_id", text_of(item, "call_id")},
                      {"content", content_of(item.value("output", Json()))}});
    } else if (type == "reasoning") {
      const bool has_content = has(item, "content") && !item.at("content").empty();
      const std::string text = content_of(item.value(has_content ? "content" : "summary", Json::array()));
      if (!text.empty()) assistant("reasoning_content", true)["reasoning_content"] = text;
    } else {
      refuse("input", "has an item of type {}, which is not supported", core::printable(type, 80));
    }
  }

  void add_message(const std::string& role, const std::string& content) {
    const bool is_system = role == "system" || role == "developer";
    if (role == "assistant") {
      assistant("content", true)["content"] = content;
    } else if (is_system && all_.size() == 1 && all_[0]["role"] == "system") {  // appended to the instructions
      all_[0]["content"] = all_[0]["content"].get<std::string>() + "\n\n" + content;
    } else {
      all_.push_back({{"role", is_system ? "system" : role}, {"content", content}});
    }
  }

  [[nodiscard]] Json take() { return std::move(all_); }

 private:
  // Returns the assistant message to which the field `key` is added: the last message if possible, otherwise a new one.
  // If `first` is true, `key` must precede content and tool calls, so a last message with content, tool calls or `key`
  // can't be used.
  Json& assistant(const char* key, bool first) {
    const auto has_any = [&](auto... fields) { return (has(all_.back(), fields) || ...); };
    const bool fits =
        !all_.empty() && all_.back()["role"] == "assistant" && !(first && has_any("tool_calls", "content", key));
    if (!fits) all_.push_back({{"role", "assistant"}, {"content", nullptr}});
    return all_.back();
  }

  Json all_ = Json::array();
};

Json messages_of(const Fields& fields) {
  Messages messages;
  if (const std::string* instructions = fields.text("instructions")) messages.add_message("system", *instructions);
  const Json* input = fields.find("input");
  if (input == nullptr) refuse("input", "is missing");
  if (input->is_string()) {
    messages.add_message("user", input->get<std::string>());
  } else if (input->is_array() && !input->empty()) {
    for (const Json& item : *input) messages.add(item);
  } else {
    refuse_type("input", "a text or a list of items");
  }
  return messages.take();
}

Ordered tools_of(const Ordered& tools) {
  if (!tools.is_array()) refuse_type("tools", "a list of functions");
  Ordered all = Ordered::array();
  for (const Ordered& tool : tools) {
    if (!tool.is_object() || tool.value("type", Ordered()) != "function")
      refuse("tools", "must be functions, {{\"type\": \"function\", \"name\": …}}; others are not supported");
    Ordered function = tool;
    function.erase("type");
    all.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return all;
}

// Translates the request to the JSON of a chat request. `ordered` is the body with its original key order, without
// logit_bias.
std::string chat_of(const Fields& fields, const Ordered& ordered) {
  constexpr std::array kOther{"tools", "tool_choice", "stream_options", "top_logprobs"};
  Ordered chat = Ordered::object();
  const Json& known = schema("ChatRequest")["properties"];
  for (const auto& [key, value] : ordered.items()) {
    if (known.contains(key) && std::ranges::find(kOther, key) == kOther.end()) chat[key] = value;
  }
  chat["messages"] = messages_of(fields);
  if (const auto n = fields.integer("max_output_tokens")) chat["max_completion_tokens"] = *n;
  bool wants_logprobs = fields.integer("top_logprobs").has_value();
  const Json* include = fields.find("include");
  if (include != nullptr && !include->is_array()) refuse_type("include", "a list of strings");
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    const Json& what = (*include)[i];
    if (what == "message.output_text.logprobs") {
      wants_logprobs = true;
    } else if (what != "reasoning.encrypted_content") {
      refuse("include", "has {}, which is not supported", core::printable(what.dump(), 80));
    }
  }
  if (wants_logprobs) {
    chat["logprobs"] = true;
    chat["top_logprobs"] = fields.integer("top_logprobs").value_or(0);
  }
  static_cast<void>(fields.inside("stream_options").flag("include_obfuscation"));
  static_cast<void>(fields.integer("max_tool_calls"));  // checked but unused: limits tools that run on OpenAI's servers
  const Fields text = fields.inside("text");
  if (const std::string* verbosity = text.text("verbosity")) chat["verbosity"] = *verbosity;
  if (text.find("format") != nullptr) {
    Ordered format = ordered["text"]["format"];
    if (format.is_object() && format.value("type", Ordered()) == "json_schema") {
      format.erase("type");
      format = {{"type", "json_schema"}, {"json_schema", std::move(format)}};
    }
    chat["response_format"] = std::move(format);
  }
  const Fields reasoning = fields.inside("reasoning");
  if (const std::string* effort = reasoning.text("effort")) chat["reasoning_effort"] = *effort;
  if (fields.find("tools") != nullptr) chat["tools"] = tools_of(ordered["tools"]);
  if (const Json* choice = fields.find("tool_choice")) {
    const bool is_named = choice->is_object() && choice->value("type", Json()) == "function" && has(*choice, "name");
    chat["tool_choice"] = is_named ? Json{{"type", "function"}, {"function", {{"name", choice->at("name")}}}} : *choice;
  }
  std::string json = chat.dump();
  if (const Json* logit_bias = fields.find("logit_bias")) {
    json.replace(json.size() - 1, 1, ",\"logit_bias\":" + logit_bias->dump() + "}");
  }
  return json;
}

void check_stateless(const Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name) == nullptr) continue;
    refuse(name, "is not supported, since nothing is stored; send the whole conversation as 'input'");
  }
  const Json* store = fields.find("store");
  if (store != nullptr && *store != false) refuse("store", "must be false or absent, since nothing is stored");
  fields.only("background", false);
  fields.only("truncation", "disabled");
}

// Replaces field names of the chat API in an error message by those of the Responses API.
std::string renamed(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames{
      {{"'response_format.json_schema", "'text.format"},
       {"'response_format", "'text.format"},
       {"'messages'", "'input'"},
       {"'tools.function", "'tools"},
       {"'max_completion_tokens", "'max_output_tokens"},
       {"'reasoning_effort", "'reasoning.effort"}}};
  for (const auto& [chat, own] : kNames) {
    for (size_t at = 0; (at = text.find(chat, at)) != std::string::npos; at += own.size()) {
      text.replace(at, chat.size(), own);
    }
  }
  return text;
}

// ---- Answers: items and events ----

// Returns the fields of a response that are copied from the request, with defaults for absent ones.
Ordered response_head(const Ordered& body, const CompletionRequest& request) {
  const auto given = [&](const char* name, const Ordered& otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? otherwise : *found;
  };
  const auto decimal = [](float value) { return std::stod(fmt::format("{}", value)); };  // 0.6F becomes 0.6
  return {{"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"metadata", given("metadata", Ordered::object())},
          {"model", request.model},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"seed", static_cast<int64_t>(request.options.sampler.seed)},
          {"store", false},
          {"temperature", given("temperature", decimal(request.options.sampler.temperature))},
          {"text", given("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", Ordered::array())},
          {"top_p", given("top_p", decimal(request.options.sampler.top_p))},
          {"truncation", "disabled"}};
}

// Writes an answer in the Responses API's format, as a stream of events or as one JSON object.
class ResponseReplies : public Replies {
 public:
  ResponseReplies(const CompletionRequest& request, const ServedModel& served, const std::string& id, int64_t created,
                  const Ordered& head)
      : Replies(request, served, id, created), name_(id.substr(request.id_prefix.size())) {
    response_ = {{"id", id}, {"object", "response"}, {"created_at", created}, {"status", "in_progress"}};
    response_.update(head);
    response_["output"] = Ordered::array();
    response_["usage"] = nullptr;
  }

  [[nodiscard]] TextSource whole(std::span<const ChoiceText> choices, const Usage& usage) override {
    static_cast<void>(events_of(choices[0]));
    finish(usage);
    return literal(dump(response_) + "\n");
  }

  [[nodiscard]] std::string first_chunk(size_t) override {
    const std::string text = event("response.created", {{"response", response_}});
    return text + event("response.in_progress", {{"response", response_}});
  }

  [[nodiscard]] TextSource chunk(size_t, ChoiceText piece) override { return literal(events_of(piece)); }

  [[nodiscard]] std::string last_events(const Usage& usage) override {
    finish(usage);
    return event("response." + response_["status"].get<std::string>(), {{"response", response_}});
  }

  [[nodiscard]] std::string error_event(const ApiError& error) override {
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.what()}};
    return event("response.failed", {{"response", response_}});
  }

 private:
  std::string event(const std::string& type, const Ordered& more) {
    Ordered json = {{"type", type}, {"sequence_number", n_events_++}};
    json.update(more);
    return "event: " + type + "\ndata: " + dump(json) + "\n\n";
  }
  // Returns an event about item_ or, if `is_part`, about its first content part, with the additional fields `more`.
  std::string item_event(const std::string& type, const Ordered& more, bool is_part = true) {
    Ordered json = {{"item_id", item_["id"]}, {"output_index", response_["output"].size()}};
    if (is_part) json["content_index"] = 0;
    json.update(more);
    return event(type, json);
  }
  [[nodiscard]] bool is_open(const char* type) const { return !item_.is_null() && item_["type"] == type; }

  std::string open(const std::string& type, const char* prefix, const Ordered& more) {
    std::string text = close("completed");
    item_ = {{"id", fmt::format("{}_{}{}", prefix, name_, response_["output"].size())},
             {"type", type},
             {"status", "in_progress"}};
    item_.update(more);
    return text + event("response.output_item.added", {{"output_index", response_["output"].size()}, {"item", item_}});
  }
  std::string open_part(const Ordered& part) {
    std::string text = item_event("response.content_part.added", {{"part", part}});
    item_["content"].push_back(part);
    return text;
  }

  std::string close(const std::string& status) {
    if (item_.is_null()) return "";
    std::string text;
    if (is_open("function_call")) {
      text = item_event("response.function_call_arguments.done",
                        {{"name", item_["name"]}, {"arguments", item_["arguments"]}}, false);
    } else {
      const Ordered& part = item_["content"][0];
      Ordered done = {{"text", part["text"]}};
      if (is_open("message")) done["logprobs"] = part["logprobs"];
      text = item_event(is_open("message") ? "response.output_text.done" : "response.reasoning_text.done", done);
      text += item_event("response.content_part.done", {{"part", part}});
    }
    item_["status"] = status;
    text += event("response.output_item.done", {{"output_index", response_["output"].size()}, {"item", item_}});
    response_["output"].push_back(std::exchange(item_, nullptr));
    return text;
  }

  std::string events_of(const ChoiceText& piece) {
    std::string text;
    if (!piece.answer.reasoning.empty()) {
      if (!is_open("reasoning")) {
        text += open("reasoning", "rs", {{"summary", Ordered::array()}, {"content", Ordered::array()}});
        text += open_part({{"type", "reasoning_text"}, {"text", ""}});
      }
      append(item_["content"][0]["text"], piece.answer.reasoning);
      text += item_event("response.reasoning_text.delta", {{"delta", piece.answer.reasoning}});
    }
    const bool is_empty = piece.answer.empty() && item_.is_null() && response_["output"].empty();
    if (!piece.answer.content.empty() || (is_empty && !piece.finish_reason.empty())) text += message_events(piece);
    for (const CallUpdate& call : piece.answer.calls) {
      if (!call.name.empty()) {
        text += open("function_call", "fc", {{"call_id", call.id}, {"name", call.name}, {"arguments", ""}});
      }
      append(item_["arguments"], call.arguments);
      if (call.arguments.empty()) continue;
      text += item_event("response.function_call_arguments.delta", {{"delta", call.arguments}}, false);
    }
    if (piece.finish_reason.empty()) return text;
    response_["status"] = piece.finish_reason == "length" ? "incomplete" : "completed";
    if (piece.finish_reason == "length") {
      response_["incomplete_details"] = {
          {"reason", piece.stop_reason.empty() ? "max_output_tokens" : piece.stop_reason}};
    }
    return text + close(response_["status"]);
  }

  std::string message_events(const ChoiceText& piece) {
    std::string text;
    if (!is_open("message")) {
      text += open("message", "msg", {{"role", "assistant"}, {"content", Ordered::array()}});
      text += open_part(
          {{"type", "output_text"}, {"text", ""}, {"annotations", Ordered::array()}, {"logprobs", Ordered::array()}});
    }
    if (piece.answer.content.empty()) return text;
    Ordered logprobs = Ordered::array();
    for (const TokenLogprob& token : piece.tokens) {
      if (token.in_content) logprobs.push_back(content_json(token));
    }
    append(item_["content"][0]["text"], piece.answer.content);
    for (const Ordered& one : logprobs) item_["content"][0]["logprobs"].push_back(one);
    return text + item_event("response.output_text.delta", {{"delta", piece.answer.content}, {"logprobs", logprobs}});
  }

  static void append(Ordered& to, const std::string& text) { to.get_ref<std::string&>() += text; }

  void finish(const Usage& usage) {
    response_["usage"] = {{"input_tokens", usage.prompt_tokens},
                          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
                          {"output_tokens", usage.completion_tokens},
                          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
                          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  }

  std::string name_;        ///< the response's ID without prefix; part of the items' IDs
  Ordered response_;        ///< the response object, with all complete items
  Ordered item_ = nullptr;  ///< the item that is being written; null between items
  size_t n_events_ = 0;
};

}  // namespace

CompletionRequest parse_response(const Json& body, const ServedModel& served, uint64_t random_seed,
                                 std::string_view text, const ParseOptions& options) {
  // Maximum number of log-probabilities in a response. It is low because a stream sends each of them several times.
  constexpr size_t kMostNumbers = size_t{1} << 18U;
  const Fields fields(body, schema("ResponseRequest"));
  check_stateless(fields);
  const Ordered ordered = in_order(body, text, options.budget);
  const std::string chat = chat_of(fields, ordered);
  CompletionRequest request;
  try {
    request = parse_chat(Json::parse(chat), served, random_seed, chat, options);
  } catch (const ApiError& error) {
    const std::string param = renamed("'" + error.param() + "'");
    throw ApiError(error.status(), renamed(error.what()), param.substr(1, param.size() - 2), error.code());
  }
  if (request.top_logprobs) {
    const size_t n_each = 1 + *request.top_logprobs;
    const auto n_tokens = static_cast<size_t>(request.options.max_tokens);
    if (n_tokens * n_each > kMostNumbers) {
      refuse("top_logprobs", "would return {} numbers for {} tokens, more than {}; set 'max_output_tokens'",
             n_tokens * n_each, n_tokens, kMostNumbers);
    }
    request.n_logprob_bytes = n_tokens * (sizeof(TokenLogprob) + n_each * sizeof(TokenLogprob::Alternative));
  }
  request.path = "/v1/responses";
  request.id_prefix = "resp_";
  request.make_replies = [head = response_head(ordered, request)](const CompletionRequest& r, const ServedModel& m,
                                                                  const std::string& id, int64_t created) {
    return std::make_unique<ResponseReplies>(r, m, id, created, head);
  };
  return request;
}

}  // namespace folio::infer::server
