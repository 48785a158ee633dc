// Test tool that prints the training examples of conversations.
//   conversations_tool FILE     FILE is a JSON list of requests {"tokenizer": FILE, "conversations": FILE, "template":
//                               Jinja (default: the tokenizer's)}; prints for each the list of its examples,
//                               {"tokens": […], "learned": [0 or 1, …]}, or {"error"}
#include <nlohmann/json.hpp>

#include "data/chat/conversations.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/data/chat/answer_requests.h"

namespace folio::data {
namespace {

using Json = nlohmann::json;

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

}  // namespace
}  // namespace folio::data

int main(int argc, char** argv) {
  return folio::data::test::answer_requests<nlohmann::json>(argc, argv, "conversations_tool", folio::data::examples);
}
