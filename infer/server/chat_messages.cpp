#include "infer/server/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/json.h"

namespace folio::infer::server {
namespace {

data::ChatRole role_of(const Json& message) {
  using data::ChatRole;
  const auto role = message.find("role");
  if (role != message.end()) {
    for (const ChatRole known : {ChatRole::System, ChatRole::User, ChatRole::Assistant, ChatRole::Tool}) {
      if (*role == data::chat_role_name(known)) return known;
    }
    if (*role == "developer") return ChatRole::System;
  }
  refuse("messages", "have to have a role: system, user, assistant or tool");
}

const std::string* text_at(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// A text, or a list of parts that are texts. With calls there need be none.
std::string content_of(const Json& message, bool has_calls) {
  if (const std::string* text = text_at(message, "content")) return *text;
  const auto content = message.find("content");
  if (has_calls && (content == message.end() || content->is_null())) return "";
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

void check_arguments(const std::string& arguments) {
  try {
    if (core::parse_json(arguments, "").is_object()) return;
  } catch (const core::Error&) {
  }
  refuse("messages", "have tool_calls whose arguments are no JSON object, as a text");
}

std::vector<data::ToolCall> calls_of(const Json& list) {
  constexpr const char* kWrong =
      "have tool_calls that are not {\"id\", \"type\": \"function\", \"function\": {\"name\", \"arguments\"}}";
  std::vector<data::ToolCall> calls;
  if (!list.is_array()) refuse("messages", kWrong);
  for (const Json& call : list) {
    const std::string* id = text_at(call, "id");
    const std::string* type = text_at(call, "type");
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    const std::string* name = text_at(function, "name");
    const std::string* arguments = text_at(function, "arguments");
    if (id == nullptr || name == nullptr || arguments == nullptr || (type != nullptr && *type != "function")) {
      refuse("messages", kWrong);
    }
    check_arguments(*arguments);
    calls.push_back({.id = *id, .name = *name, .arguments = *arguments});
  }
  return calls;
}

data::ChatMessage message_of(const Json& message) {
  using data::ChatRole;
  constexpr std::array kKnown{"role", "content", "name", "tool_calls", "tool_call_id"};
  if (!message.is_object()) refuse("messages", "have to be objects with a role and a content");
  for (const auto& [key, value] : message.items()) {
    const bool is_empty = value.is_null() || (value.is_array() && value.empty());
    if (std::ranges::find(kKnown, key) == kKnown.end() && !is_empty) {
      refuse("messages", fmt::format("have a {}, which is not supported", core::printable(key)));
    }
  }
  for (const char* key : {"name", "tool_call_id"}) {
    if (message.contains(key) && !message[key].is_null() && text_at(message, key) == nullptr) {
      refuse("messages", fmt::format("have a {} that is no text", key));
    }
  }
  data::ChatMessage made{.role = role_of(message), .content = {}};
  if (const auto calls = message.find("tool_calls"); calls != message.end() && !calls->is_null()) {
    made.calls = calls_of(*calls);
    if (!made.calls.empty() && made.role != ChatRole::Assistant)
      refuse("messages", "have tool_calls of another role than assistant");
  }
  const std::string* call_id = text_at(message, "tool_call_id");
  if (made.role == ChatRole::Tool) {
    if (call_id == nullptr) refuse("messages", "of the role tool have to have a tool_call_id");
    made.call_id = *call_id;
    if (const std::string* name = text_at(message, "name")) made.name = *name;
  }
  made.content = content_of(message, !made.calls.empty());
  return made;
}

}  // namespace

std::vector<data::ChatMessage> messages_of(const Json* list) {
  if (list == nullptr || !list->is_array() || list->empty()) refuse("messages", "have to be a list of messages");
  std::vector<data::ChatMessage> messages;
  for (const Json& message : *list) messages.push_back(message_of(message));
  return messages;
}

}  // namespace folio::infer::server
