// A tool of the tests: chats in Folio's templates.
//   chat_template_tool FILE     FILE is a JSON list of {"template": Jinja or "name": NAME, "bos", "eos", "messages"};
//                               prints a list of {"pieces": [[text, is_mark], …]} or {"error": …}, with "family" and
//                               "end_of_turn" where the template is known
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "data/chat/chat_template.h"

namespace folio::data {
namespace {

using Json = nlohmann::ordered_json;

std::vector<ChatMessage> messages_of(const nlohmann::json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& m : list) {
    const auto role = m.at("role").get<std::string>();
    messages.push_back({.role = role == "system" ? ChatRole::System
                                : role == "user" ? ChatRole::User
                                                 : ChatRole::Assistant,
                        .content = m.at("content").get<std::string>()});
  }
  return messages;
}

Json answer(const nlohmann::json& request) {
  Json result;
  try {
    const ChatTemplate chat = request.contains("name")
                                  ? chat_template_named(request.at("name").get<std::string>())
                                  : recognize_chat_template(request.at("template").get<std::string>(), "the file");
    result["family"] = chat_template_names().at(static_cast<size_t>(chat.family));
    result["end_of_turn"] = end_of_turn(chat.family);
    Json pieces = Json::array();
    for (const ChatPiece& piece :
         render_chat(chat, messages_of(request.at("messages")), request.at("bos").get<std::string>(),
                     request.at("eos").get<std::string>())) {
      pieces.push_back({piece.text, piece.is_mark});
    }
    result["pieces"] = pieces;
  } catch (const core::Error& error) {
    result["error"] = error.what();
  }
  return result;
}

}  // namespace
}  // namespace folio::data

int main(int argc, char** argv) {
  try {
    folio::core::require(argc == 2, "usage: chat_template_tool FILE");
    folio::data::Json answers = folio::data::Json::array();
    for (const auto& request : folio::core::parse_json(folio::core::read_text_file(argv[1]), argv[1])) {
      answers.push_back(folio::data::answer(request));
    }
    fmt::print("{}\n", answers.dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
