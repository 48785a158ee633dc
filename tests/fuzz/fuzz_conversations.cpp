// Fuzzes reading a data set of conversations. Writes each, reads it back, and makes training examples of it.
#include "core/json.h"
#include "data/chat/conversations.h"
#include "tests/data/chat/byte_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}{% endfor %}{{ '<end>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}";

// Returns a conversation as a line of JSON, as in a data set.
std::string written(const data::StoredConversation& conversation) {
  core::OrderedJson messages = core::OrderedJson::array();
  for (const data::ChatMessage& m : conversation.messages) {
    core::OrderedJson message{{"role", data::chat_role_name(m.role)}, {"content", m.content}};
    for (const data::ToolCall& call : m.calls) {
      message["tool_calls"].push_back(
          {{"id", call.id}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    if (m.role == data::ChatRole::Tool) {
      message["tool_call_id"] = m.call_id;
      message["name"] = m.name;
    }
    messages.push_back(std::move(message));
  }
  return core::OrderedJson{{"messages", messages}, {"tools", conversation.tools}}.dump();
}

bool same(const data::StoredConversation& a, const data::StoredConversation& b) { return written(a) == written(b); }

}  // namespace

bool take(std::string_view input) {
  const std::string path = scratch_file("f.jsonl", input).string();
  static_cast<void>(data::are_conversations(data::Documents({path}), "text"));
  std::vector<data::StoredConversation> all;
  if (!accepted([&] { all = data::read_conversations(data::Documents({path})); }, path)) return false;
  const data::test::ByteTokenizer tokenizer;
  const data::ChatTemplate chat(kTemplate, "t");
  const data::ChatRenderer renderer(tokenizer, chat);
  for (const data::StoredConversation& conversation : all) {
    std::string line = written(conversation);
    if (conversation.tools.empty()) line.replace(line.rfind("\"\""), 2, "null");
    const std::string again = scratch_file("again.jsonl", line).string();
    check(same(data::read_conversations(data::Documents({again})).at(0), conversation),
          "a conversation is read as it was written");
    std::vector<data::ChatExample> examples;
    if (!accepted([&] { examples = renderer.examples(conversation); }, conversation.where)) continue;
    check(!examples.empty(), "a conversation has an example");
    for (const data::ChatExample& example : examples) {
      check(example.tokens.size() == example.is_learned.size(), "is_learned has a value for each token");
      check(example.is_learned.back() && !example.is_learned.front(),
            "the last token is learned, and the first is not");
      check(example.tokens.back() == 258, "an answer ends with its end token");
    }
  }
  return !all.empty();
}

}  // namespace folio::fuzz
