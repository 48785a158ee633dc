// Test tool that renders Jinja templates and chats.
//   chat_template_tool FILE     FILE is a JSON list of requests; prints the list of results, {"error"} for a rejected
//                               request. A request and its result are one of:
//     {"template": Jinja (or "name": a built-in template or FILE), "bos", "eos", "messages", "tools": […], "marks":
//      [other special tokens]}
//                            -> {"pieces": [[text, is_template], …], "end_of_turn": text}
//     {"template", "bos", "eos", "marks", "tool_format": true}
//                            -> the fields of ToolFormat
//     {"tokenizer": FILE or directory, "messages", "tools"}
//                            -> {"text": the chat, rendered with the tokenizer's template}
//     {"jinja": template, "parse": true}
//                            -> {"text": null}
//     {"jinja": template, "variables": {…}, "said": [names of variables that count as message contents]}
//                            -> {"text": rendered, "said": the parts of this text that come from these variables}
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/chat/chat_template.h"
#include "data/chat/tool_format.h"
#include "data/tokenizers/tokenizer_files.h"
#include "jinja/interpreter.h"
#include "tests/data/chat/answer_requests.h"
#include "tests/data/chat/byte_tokenizer.h"

namespace folio::data {
namespace {

using Json = nlohmann::ordered_json;

// A tokenizer with the special tokens BOS, EOS and `marks`, whose prompts begin with BOS.
class MarkTokenizer final : public test::ByteTokenizer {
 public:
  explicit MarkTokenizer(const Json& request) : ByteTokenizer(special(request)) {}
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override { return default_prompt(); }

 private:
  static std::vector<std::string> special(const Json& request) {
    std::vector<std::string> all{request.at("bos"), request.at("eos")};
    for (const Json& mark : request.at("marks")) all.push_back(mark);
    return all;
  }
};

std::vector<ChatMessage> messages_of(const Json& list) {
  std::vector<ChatMessage> messages;
  for (const Json& m : list) {
    const auto role = m.at("role").get<std::string>();
    messages.push_back({.role = role == "system" ? ChatRole::System
                                : role == "user" ? ChatRole::User
                                : role == "tool" ? ChatRole::Tool
                                                 : ChatRole::Assistant,
                        .content = m.at("content").get<std::string>(),
                        .call_id = m.value("tool_call_id", ""),
                        .name = m.value("name", "")});
    for (const Json& call : m.value("tool_calls", Json::array())) {
      const Json& function = call.at("function");
      messages.back().calls.push_back(
          {.id = call.at("id"), .name = function.at("name"), .arguments = function.at("arguments").dump()});
    }
  }
  return messages;
}

jinja::Value value_of(jinja::Session& session, const Json& json, char32_t mark) {
  if (json.is_string()) return session.text(jinja::from_utf8(json.get<std::string>(), mark));
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_null()) return {jinja::None{}};
  if (json.is_array()) {
    std::vector<jinja::Value> items;
    for (const Json& item : json) items.push_back(value_of(session, item, mark));
    return session.list(std::move(items));
  }
  std::vector<std::pair<jinja::Value, jinja::Value>> items;
  for (const auto& [key, item] : json.items()) {
    items.emplace_back(session.text(jinja::from_utf8(key)), value_of(session, item, mark));
  }
  return session.dict(std::move(items));
}

Json rendered(const Json& request) {
  if (request.value("parse", false)) {
    static_cast<void>(jinja::parse(request.at("jinja").get<std::string>()));
    return {{"text", nullptr}};
  }
  jinja::Session session;
  jinja::Variables variables;
  const Json said = request.value("said", Json::array());
  for (const auto& [key, value] : request.at("variables").items()) {
    const bool is_said = std::find(said.begin(), said.end(), Json(key)) != said.end();
    variables.emplace_back(key, value_of(session, value, is_said ? jinja::kFromMessage : 0));
  }
  const jinja::Block program = jinja::parse(request.at("jinja").get<std::string>());
  const jinja::Text text = jinja::render(program, session, std::move(variables));
  jinja::Text marked;
  std::copy_if(text.begin(), text.end(), std::back_inserter(marked),
               [](char32_t c) { return (c & jinja::kFromMessage) != 0; });
  return {{"text", jinja::to_utf8(text)}, {"said", jinja::to_utf8(marked)}};
}

Json chat(const Json& request) {
  const ChatTemplate chat_template = request.contains("name")
                                         ? chat_template_named(request.at("name").get<std::string>())
                                         : ChatTemplate(request.at("template").get<std::string>(), "the file");
  Json pieces = Json::array();
  for (const ChatPiece& piece : chat_template.render(
           messages_of(request.at("messages")), request.at("bos").get<std::string>(),
           request.at("eos").get<std::string>(), {.tools = request.contains("tools") ? request["tools"].dump() : ""})) {
    pieces.push_back({piece.text, piece.is_template});
  }
  Json result{{"pieces", pieces}};
  if (request.contains("marks")) result["end_of_turn"] = end_of_turn(MarkTokenizer(request), chat_template);
  return result;
}

Json format_of_calls(const Json& request) {
  const ChatTemplate chat_template(request.at("template").get<std::string>(), "the file");
  const MarkTokenizer tokenizer(request);
  const ToolFormat format = tool_format(tokenizer, chat_template);
  Json call = Json::array();
  for (const CallPiece& piece : format.call) {
    constexpr std::array kKinds{"text", "name", "arguments", "id"};
    call.push_back({kKinds.at(static_cast<size_t>(piece.kind)), piece.text});
  }
  return {{"before", format.before},
          {"opening", format.opening},
          {"trigger", format.trigger},
          {"only_at_start", format.only_at_start},
          {"call", call},
          {"several", format.several},
          {"separator", format.separator},
          {"closing", format.closing},
          {"has_spaces", format.has_spaces},
          {"arguments_as_text", format.arguments_as_text},
          {"in_words", format.in_words},
          {"has_system", format.has_system},
          {"marks", MarkedTokenizer(tokenizer, format.marks).decode(format.marks)}};
}

Json chosen(const Json& request) {
  const auto tokenizer = load_tokenizer(request.at("tokenizer").get<std::string>(), 0);
  const ChatTemplate chat_template = chat_template_of(*tokenizer, "the model");
  std::string text;
  for (const ChatPiece& piece : render_chat(*tokenizer, chat_template, messages_of(request.at("messages")),
                                            {.tools = request["tools"].is_null() ? "" : request["tools"].dump()})) {
    text += piece.text;
  }
  return {{"text", text}};
}

Json answer(const Json& request) {
  if (request.contains("tokenizer")) return chosen(request);
  if (request.contains("tool_format")) return format_of_calls(request);
  return request.contains("jinja") ? rendered(request) : chat(request);
}

}  // namespace
}  // namespace folio::data

int main(int argc, char** argv) {
  return folio::data::test::answer_requests<folio::data::Json>(argc, argv, "chat_template_tool", folio::data::answer);
}
