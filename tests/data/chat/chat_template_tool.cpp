// Test tool that renders Jinja templates and chats, and prints the training examples of conversations.
//   chat_template_tool FILE     FILE is a JSON list of requests; prints the list of results, {"error"} for a rejected
//                               request. A request and its result are one of:
//     {"template": Jinja (or "name": a built-in template or FILE), "bos", "eos", "messages", "tools": […], "marks":
//      [other special tokens]}
//                            -> {"pieces": [[text, is_template], …], "end_of_turn": text}
//     {"template", "bos", "eos", "marks", "tool_format": true}
//                            -> the fields of ToolFormat
//     {"tokenizer": FILE or directory, "messages", "tools"}
//                            -> {"text": the chat, rendered with the tokenizer's template}
//     {"tokenizer", "conversations": FILE, "template": Jinja (default: the tokenizer's)}
//                            -> [{"tokens": […], "learned": [0 or 1, …]}, …], the training examples
//     {"jinja": template, "parse": true}
//                            -> {"text": null}
//     {"jinja": template, "variables": {…}, "content": [names of variables that count as message contents]}
//                            -> {"text": rendered, "content": the parts of this text that come from these variables}
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "data/chat/chat_messages.h"
#include "data/chat/conversations.h"
#include "data/chat/tool_format.h"
#include "data/tokenizers/tokenizer_files.h"
#include "jinja/interpreter.h"
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

std::vector<ChatMessage> messages_of(const Json& request) {
  const Json& list = request.at("messages");
  return list.empty() ? std::vector<ChatMessage>() : chat_messages(list, MessageForm::Dataset);
}

Json rendered(const Json& request) {
  if (request.value("parse", false)) {
    static_cast<void>(jinja::parse(request.at("jinja").get<std::string>()));
    return {{"text", nullptr}};
  }
  jinja::Session session;
  jinja::Variables variables;
  const Json content = request.value("content", Json::array());
  for (const auto& [key, value] : request.at("variables").items()) {
    const bool is_content = std::find(content.begin(), content.end(), Json(key)) != content.end();
    variables.emplace_back(key, jinja::from_json(session, value, is_content ? jinja::kFromMessage : 0));
  }
  const jinja::Block program = jinja::parse(request.at("jinja").get<std::string>());
  const jinja::Text text = jinja::render(program, session, std::move(variables));
  jinja::Text marked;
  std::copy_if(text.begin(), text.end(), std::back_inserter(marked),
               [](char32_t c) { return (c & jinja::kFromMessage) != 0; });
  return {{"text", jinja::to_utf8(text)}, {"content", jinja::to_utf8(marked)}};
}

Json chat(const Json& request) {
  const ChatTemplate chat_template = request.contains("name")
                                         ? chat_template_named(request.at("name").get<std::string>())
                                         : ChatTemplate(request.at("template").get<std::string>(), "the file");
  Json pieces = Json::array();
  for (const ChatPiece& piece : chat_template.render(
           messages_of(request), request.at("bos").get<std::string>(), request.at("eos").get<std::string>(),
           {.tools = request.contains("tools") ? request["tools"].dump() : ""})) {
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

Json rendered_by_tokenizer(const Json& request) {
  const auto tokenizer = load_tokenizer(request.at("tokenizer").get<std::string>(), 0);
  const ChatTemplate chat_template = chat_template_of(*tokenizer, "the model");
  std::string text;
  for (const ChatPiece& piece : render_chat(*tokenizer, chat_template, messages_of(request),
                                            {.tools = request["tools"].is_null() ? "" : request["tools"].dump()})) {
    text += piece.text;
  }
  return {{"text", text}};
}

Json examples(const Json& request) {
  const auto tokenizer = load_tokenizer(request.at("tokenizer").get<std::string>(), 0);
  const ChatTemplate chat(request.value("template", tokenizer->chat_template()), "the template");
  const ChatRenderer renderer(*tokenizer, chat);
  Json all = Json::array();
  for (const StoredConversation& conversation :
       read_conversations(Documents({request.at("conversations").get<std::string>()}))) {
    for (const ChatExample& example : renderer.examples(conversation)) {
      all.push_back({{"tokens", example.tokens},
                     {"learned", std::vector<int>(example.is_learned.begin(), example.is_learned.end())}});
    }
  }
  return all;
}

Json answer(const Json& request) {
  if (request.contains("conversations")) return examples(request);
  if (request.contains("tokenizer")) return rendered_by_tokenizer(request);
  if (request.contains("tool_format")) return format_of_calls(request);
  return request.contains("jinja") ? rendered(request) : chat(request);
}

}  // namespace
}  // namespace folio::data

int main(int argc, char** argv) {
  using folio::data::Json;
  try {
    folio::core::require(argc == 2, "usage: chat_template_tool FILE");
    Json answers = Json::array();
    for (const Json& request : Json::parse(folio::core::read_text_file(argv[1]))) {
      try {
        answers.push_back(folio::data::answer(request));
      } catch (const folio::core::Error& error) {
        answers.push_back({{"error", error.what()}});
      }
    }
    fmt::print("{}\n", answers.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
