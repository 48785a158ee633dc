#include "data/chat/conversations.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"
#include "tests/data/chat/byte_tokenizer.h"

namespace folio::data {
namespace {

using core::test::TempDir;
using core::test::write_bytes;
using test::ByteTokenizer;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '[' + m.role + ']' + m.content + '<end>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}";

// Returns the training examples of a conversation as strings, with learned parts in braces and "<end>" as "#".
std::vector<std::string> shown(const std::string& jinja, const std::vector<ChatMessage>& messages) {
  const ByteTokenizer tokenizer;
  std::vector<std::string> all;
  const ChatTemplate chat(jinja, "t");
  const ChatRenderer renderer(tokenizer, chat);
  for (const ChatExample& example : renderer.examples({.messages = messages, .where = "f: line 1"})) {
    std::string text;
    for (size_t i = 0; i < example.tokens.size(); ++i) {
      const bool before = i > 0 && example.is_learned[i - 1];
      if (example.is_learned[i] && !before) text += '{';
      if (!example.is_learned[i] && before) text += '}';
      text += example.tokens[i] < 256 ? std::string(1, static_cast<char>(example.tokens[i])) : "#";
    }
    all.push_back(text + (example.is_learned.back() ? "}" : ""));
  }
  return all;
}

const std::vector<ChatMessage> kTwoTurns{{.role = ChatRole::System, .content = "s"},
                                         {.role = ChatRole::User, .content = "u"},
                                         {.role = ChatRole::Assistant, .content = "a"},
                                         {.role = ChatRole::User, .content = "v"},
                                         {.role = ChatRole::Assistant, .content = "b"}};

bool learns_to_stop(const std::string& jinja) {
  const ByteTokenizer tokenizer;
  const ChatTemplate chat(jinja, "t");
  return ChatRenderer(tokenizer, chat).learns_to_stop();
}

TEST(ChatRenderer, ReportsWhetherAnEndIsLearned) {
  EXPECT_TRUE(learns_to_stop(kTemplate));
  EXPECT_TRUE(  // the next turn's marker ends an answer
      learns_to_stop("{% for m in messages %}</s>{{ '[' + m.role + ']' + m.content }}{% endfor %}"
                     "{% if add_generation_prompt %}</s>[assistant]{% endif %}"));
  EXPECT_TRUE(  // also if it directly precedes a message's content
      learns_to_stop("{% for m in messages %}</s>{{ m.content }}{% endfor %}"
                     "{% if add_generation_prompt %}</s>{% endif %}"));
  EXPECT_FALSE(learns_to_stop("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"));
  EXPECT_TRUE(learns_to_stop("{% for m in messages %}[{{ m.role }}]{{ m.content }}#\n{% endfor %}"));
  const auto generated = [](const std::string& answer) {
    return "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}" + answer +
           "{% else %}{{ m.content }}{% endif %}{% endfor %}";
  };
  EXPECT_TRUE(learns_to_stop(generated("{% generation %}{{ m.content }}<end>{% endgeneration %}")));
  EXPECT_FALSE(learns_to_stop(generated("{% generation %}{{ m.content }}{% endgeneration %}<end>")));
}

TEST(ChatRenderer, DropsMessagesAfterTheLastAnswer) {
  std::vector<ChatMessage> messages = kTwoTurns;
  messages.pop_back();
  EXPECT_EQ(shown(kTemplate, messages), (std::vector<std::string>{"[system]s#\n[user]u#\n[assistant]{a#}"}));
}

TEST(ChatRenderer, SpecialTokensInContentsArePlainText) {
  EXPECT_EQ(shown(kTemplate,
                  {{.role = ChatRole::User, .content = "<end>"}, {.role = ChatRole::Assistant, .content = "x<end>y"}}),
            (std::vector<std::string>{"[user]<end>#\n[assistant]{x<end>y#}"}));
}

// Templates of reasoning models render only the last answer's reasoning, so each answer needs its own training example.
TEST(ChatRenderer, SplitsExamplesIfEarlierAnswersRenderDifferently) {
  EXPECT_EQ(
      shown("{% for m in messages %}[{{ m.role }}]{{ '(thought)' if loop.last and m.role == 'assistant' else '' }}"
            "{{ m.content + '<end>' }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
            kTwoTurns),
      (std::vector<std::string>{"[system]s#[user]u#[assistant]{(thought)a#}",
                                "[system]s#[user]u#[assistant]a#[user]v#[assistant]{(thought)b#}"}));
}

TEST(ChatRenderer, RejectsPromptsThatAreNotAPrefix) {
  EXPECT_ERROR(shown(std::string(kTemplate) + "{% if add_generation_prompt %}(now){% endif %}", kTwoTurns),
               "f: line 1: the chat template writes a different prefix before an answer");
  EXPECT_ERROR(shown("{% if messages[1].content == 'u' %}{{ raise_exception('no') }}{% endif %}", kTwoTurns),
               "f: line 1: t: chat template, line 1: no");
}

TEST(ChatTemplate, VariablesReplaceDocuments) {
  const ChatTemplate chat("{{ documents | tojson }}", "t");
  const RenderOptions options{.variables = R"({"documents": [{"b": "c", "a": 18446744073709551615}]})"};
  const auto pieces = chat.render(kTwoTurns, "", "", options);
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  EXPECT_EQ(text, R"([{"b": "c", "a": 1.8446744073709552e+19}])") << "integers beyond int64 become floats";
}

TEST(Conversations, ReadsJsonLines) {
  const TempDir dir;
  write_bytes(
      dir / "c.jsonl",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Who"}, {"type": "text", "text": "?"}]},)"
      R"( {"role": "assistant", "content": "Me."}], "id": 7})"
      "\n\n"
      R"({"messages": [{"role": "user", "content": "2+2"}, {"role": "assistant", "tool_calls": [{"type": "function",)"
      R"( "function": {"name": "add", "arguments": {"b": 2, "a": 2}}}]}, {"role": "tool", "name": "add", "content": )"
      R"("4"}, {"role": "assistant", "content": "4"}], "tools": [{"type": "function"}]})"
      "\n");
  const Documents documents({(dir / "c.jsonl").string()});
  EXPECT_TRUE(are_conversations(documents, "text"));
  EXPECT_FALSE(are_conversations(documents, "id")) << "the object has the text field";
  const auto all = read_conversations(documents);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].messages[0].content, "Who?");
  EXPECT_EQ(all[0].messages[1].content, "Me.");
  EXPECT_TRUE(all[0].tools.empty());
  EXPECT_EQ(all[1].messages[1].calls[0].arguments, R"({"b":2,"a":2})");
  EXPECT_EQ(all[1].tools, R"([{"type":"function"}])");
  EXPECT_EQ(all[1].where, (dir / "c.jsonl").string() + ": line 3");
}

TEST(Conversations, DetectsFilesThatAreNotConversations) {
  const TempDir dir;
  write_bytes(dir / "a.jsonl", "{\"text\": \"once\"}\n");
  write_bytes(dir / "b.txt", R"({"messages": []})");
  write_bytes(dir / "c.jsonl", "{broken\n");
  write_bytes(dir / "d.jsonl", "");
  for (const char* name : {"a.jsonl", "b.txt", "c.jsonl", "d.jsonl"}) {
    EXPECT_FALSE(are_conversations(Documents({(dir / name).string()}), "text")) << name;
  }
}

TEST(Conversations, ErrorsNameTheBadLine) {
  const TempDir dir;
  const std::string path = (dir / "c.jsonl").string();
  const auto rejected = [&](const std::string& line, const std::string& what) {
    write_bytes(path, R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"
                      "\n" +
                          line + "\n");
    const std::string message = core::test::error_of([&] { static_cast<void>(read_conversations(Documents({path}))); });
    EXPECT_TRUE(message.starts_with(path + ": line 2")) << message;
    EXPECT_TRUE(core::test::contains(message, what));
  };
  rejected("{", "JSON");
  rejected("[]", "not an object with \"messages\"");
  rejected(R"({"text": "once"})", "not an object with \"messages\", unlike the first line");
  rejected(R"({"messages": []})", "messages must be a non-empty list");
  rejected(R"({"messages": [{"content": "a"}]})", "messages must have a role: system, user, assistant or tool");
  rejected(R"({"messages": [{"role": "user", "content": 3}]})",
           "messages must have content, a string or a list of text parts");
  for (const char* part : {R"({"type": "image", "text": "a"})", R"({"type": "text"})", R"({"text": "a"})", "3"}) {
    rejected(fmt::format(R"({{"messages": [{{"role": "user", "content": [{}]}}]}})", part),
             "messages must have content parts of type text only");
  }
  rejected(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})",
           "have the field weight, which is not supported");
  rejected(R"({"messages": [{"role": "user", "content": "q"}]})", "no message has the role assistant");
  rejected(R"({"messages": [{"role": "assistant", "content": "a"}]})", "the first message has the role assistant");
  rejected(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "tools": 3})",
           "\"tools\" is not a list");
}

// Rendering a chat counts its steps, such as loops and name lookups, and stops when a budget is exceeded.

std::vector<ChatMessage> messages(size_t n) {
  return std::vector<ChatMessage>(n, {.role = ChatRole::User, .content = "text"});
}

uint64_t steps_of(const ChatTemplate& chat, size_t n_messages) {
  const core::WorkBudget budget;
  EXPECT_FALSE(chat.render(messages(n_messages), "", "", {.budget = budget}).empty());
  return budget.spent();
}

TEST(ChatWork, LoopsBeyondTheBudgetAreRejected) {
  const ChatTemplate square("{% for a in messages %}{% for b in messages %}{{ b.content }}{% endfor %}{% endfor %}",
                            "t");
  const uint64_t steps = steps_of(square, 100);
  EXPECT_GT(steps, 100U * 100U);
  EXPECT_NO_THROW(static_cast<void>(square.render(messages(100), "", "", {.budget = core::WorkBudget(steps)})));
  EXPECT_THROW(static_cast<void>(square.render(messages(100), "", "", {.budget = core::WorkBudget(steps - 1)})),
               core::Error);
}

TEST(ChatWork, NameLookupCountsEachVariable) {
  std::string names;
  for (int i = 0; i < 800; ++i) names += "{% set v" + std::to_string(i) + " = 1 %}";
  const std::string loop = "{% for a in messages %}{{ v799 }}{% endfor %}";
  const uint64_t among_few = steps_of(ChatTemplate("{% set v799 = 1 %}" + loop, "t"), 200);
  EXPECT_GT(steps_of(ChatTemplate(names + loop, "t"), 200), among_few + 200 * 50);
}

}  // namespace
}  // namespace folio::data
