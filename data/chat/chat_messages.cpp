#include "data/chat/chat_messages.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"

namespace folio::data {
namespace {

using core::OrderedJson;

ChatRole role_of(const OrderedJson& message) {
  const auto role = message.find("role");
  if (role != message.end()) {
    for (const ChatRole known : {ChatRole::System, ChatRole::User, ChatRole::Assistant, ChatRole::Tool}) {
      if (*role == chat_role_name(known)) return known;
    }
    if (*role == "developer") return ChatRole::System;
  }
  core::fail("must have a role: system, user, assistant or tool");
}

const std::string* text_at(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// Returns a message's content: the string, or its text parts joined. Missing content is "" if the message has calls or
// reasoning (`has_more`), otherwise an error.
std::string content_of(const OrderedJson& message, bool has_more) {
  if (const std::string* text = text_at(message, "content")) return *text;
  const auto content = message.find("content");
  if (has_more && (content == message.end() || content->is_null())) return "";
  if (content == message.end() || !content->is_array())
    core::fail("must have content, a string or a list of text parts");
  std::string text;
  for (const OrderedJson& part : *content) {
    const std::string* type = text_at(part, "type");
    const std::string* part_text = text_at(part, "text");
    if (type == nullptr || *type != "text" || part_text == nullptr) {
      core::fail("must have content parts of type text only; others are not supported");
    }
    text += *part_text;
  }
  return text;
}

// Returns a call's arguments as JSON text, or nullopt for a wrong type. As in vLLM, empty or no arguments become "{}".
std::optional<std::string> arguments_of(const OrderedJson& function, MessageForm form) {
  const OrderedJson given = function.value("arguments", OrderedJson());
  if (given.is_null() || given == "") return "{}";
  if (given.is_object() && form == MessageForm::Dataset) return given.dump();
  return given.is_string() ? given.get<std::string>() : std::optional<std::string>();
}

void check_arguments(const std::string& arguments) {
  try {
    if (core::parse_json(arguments, "").is_object()) return;
  } catch (const core::Error&) {
  }
  core::fail("must have tool_calls whose arguments are a JSON object, encoded as a string");
}

std::vector<ToolCall> calls_of(const OrderedJson& list, MessageForm form) {
  constexpr const char* kWrong =
      "must have tool_calls of the form {\"id\", \"type\": \"function\", \"function\": {\"name\", \"arguments\"}}";
  std::vector<ToolCall> calls;
  if (!list.is_array()) core::fail("{}", kWrong);
  for (const OrderedJson& call : list) {
    const std::string* id = text_at(call, "id");
    const std::string* type = text_at(call, "type");
    const OrderedJson function = call.is_object() ? call.value("function", OrderedJson()) : OrderedJson();
    const std::string* name = text_at(function, "name");
    const std::optional<std::string> arguments = name == nullptr ? std::nullopt : arguments_of(function, form);
    const bool has_id = id != nullptr || form == MessageForm::Dataset;
    if (!has_id || name == nullptr || !arguments || (type != nullptr && *type != "function")) {
      core::fail("{}", kWrong);
    }
    check_arguments(*arguments);
    calls.push_back({.id = id == nullptr ? "" : *id, .name = *name, .arguments = *arguments});
  }
  return calls;
}

ChatMessage message_of(const OrderedJson& message, MessageForm form) {
  constexpr std::array kKnown{"role",      "content",          "name", "tool_calls", "tool_call_id",
                              "reasoning", "reasoning_content"};
  if (!message.is_object()) core::fail("must be objects with a role and content");
  for (const auto& [key, value] : message.items()) {
    const bool is_empty = value.is_null() || (value.is_array() && value.empty());
    if (std::ranges::find(kKnown, key) == kKnown.end() && !is_empty) {
      core::fail("have the field {}, which is not supported", core::printable(key));
    }
  }
  for (const char* key : {"name", "tool_call_id", "reasoning", "reasoning_content"}) {
    if (message.contains(key) && !message[key].is_null() && text_at(message, key) == nullptr) {
      core::fail("have a {} that is not a string", key);
    }
  }
  ChatMessage made{.role = role_of(message), .content = {}};
  if (const auto calls = message.find("tool_calls"); calls != message.end() && !calls->is_null()) {
    made.calls = calls_of(*calls, form);
    if (!made.calls.empty() && made.role != ChatRole::Assistant)
      core::fail("have tool_calls, but their role is not assistant");
  }
  for (const char* key : {"reasoning", "reasoning_content"}) {  // servers use either name for the reasoning
    const std::string* reasoning = text_at(message, key);
    if (reasoning == nullptr || reasoning->empty()) continue;
    if (made.role != ChatRole::Assistant) core::fail("have {}, but their role is not assistant", key);
    made.reasoning = *reasoning;
  }
  const std::string* call_id = text_at(message, "tool_call_id");
  if (made.role == ChatRole::Tool) {
    if (call_id == nullptr && form == MessageForm::OpenAi) core::fail("of the role tool must have a tool_call_id");
    if (call_id != nullptr) made.call_id = *call_id;
    if (const std::string* name = text_at(message, "name")) made.name = *name;
  }
  made.content = content_of(message, !made.calls.empty() || !made.reasoning.empty());
  return made;
}

}  // namespace

std::vector<ChatMessage> chat_messages(const OrderedJson& list, MessageForm form) {
  if (!list.is_array() || list.empty()) core::fail("must be a non-empty list");
  std::vector<ChatMessage> messages;
  for (const OrderedJson& message : list) messages.push_back(message_of(message, form));
  return messages;
}

}  // namespace folio::data
