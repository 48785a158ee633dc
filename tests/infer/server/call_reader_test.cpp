// Tests parsing of outputs with tool calls and reasoning: the result doesn't depend on how an output is split.
#include "infer/server/call_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/data/chat/byte_tokenizer.h"
#include "tests/data/chat/tool_formats.h"

namespace folio::infer::server {
namespace {

using data::test::hermes;
using data::test::llama;
using Kind = data::CallPiece::Kind;

data::ToolFormat mistral() {
  data::ToolFormat format = hermes();
  format.opening = "[TOOL_CALLS] [{\"name\": \"";
  format.trigger = "[TOOL_CALLS]";
  format.call.push_back({.kind = Kind::Text, .text = ", \"id\": \""});
  format.call.push_back({.kind = Kind::Id});
  format.separator = "\"}, {\"name\": \"";
  format.closing = "\"}]";
  return format;
}

data::ToolFormat gpt_oss() {
  return {.before = " ",
          .opening = "to=functions.",
          .trigger = "to=functions.",
          .call = {{.kind = Kind::Name},
                   {.kind = Kind::Text, .text = "<|channel|>commentary json<|message|>"},
                   {.kind = Kind::Arguments}}};
}

struct Call {
  std::string id{}, name{}, arguments{};
  bool operator==(const Call& other) const { return name == other.name && arguments == other.arguments; }
};
struct Answer {
  std::string content{};
  std::vector<Call> calls{};
  bool is_whole = false;
  bool operator==(const Answer&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "[" << answer.content << "]";
  for (const Call& call : answer.calls) out << " " << call.name << "(" << call.arguments << ")";
  return out << (answer.is_whole ? " whole" : " cut off");
}

// Returns the text of a call, without what the format has before and after all calls.
std::string text_of(const data::ToolFormat& format, const std::string& name, const std::string& arguments) {
  std::string text;
  for (const data::CallPiece& piece : format.call) {
    text += piece.kind == Kind::Name        ? name
            : piece.kind == Kind::Arguments ? arguments
            : piece.kind == Kind::Id        ? "aB3dE6gH9"
                                            : piece.text;
  }
  return text;
}

std::string random_of(std::mt19937& random, std::span<const std::string_view> parts, size_t most) {
  std::string text;
  for (size_t n = random() % (most + 1); n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

std::string random_arguments(std::mt19937& random) {
  constexpr std::array<std::string_view, 12> kInStrings{"a", "\\\"", "\\\\",         "{",       "}",           "]", "[",
                                                        ",", "Ü😀",  "</tool_call>", "\\u00e9", "[TOOL_CALLS]"};
  std::string text = "{";
  for (size_t n = random() % 4; n > 0; --n) {
    if (text.size() > 1) text += ", ";
    text += "\"" + random_of(random, kInStrings, 3) + "\": ";
    switch (random() % 4) {
      case 0:
        text += "\"" + random_of(random, kInStrings, 6) + "\"";
        break;
      case 1:
        text += random_arguments(random);
        break;
      case 2:
        text += "[1, {\"]\": \"}\"}, [" + std::string(random() % 2 == 0 ? "" : "null") + "]]";
        break;
      default:
        text += "-1.5e3";
    }
  }
  return text + "}";
}

struct Whole {
  std::string reasoning{};
  Answer answer{};
  bool is_enough = false;
  bool operator==(const Whole&) const = default;
};

// Parses the text in pieces until is_enough() is true, as the engine does. A new piece begins at each byte i for
// which cuts(i) is true.
template <typename Cuts>
Whole read_whole(data::Thinking thinking, const ToolUse* tools, std::string_view text, Cuts&& cuts) {
  AnswerReader reader(thinking, tools, 7);
  AnswerUpdate all;
  for (size_t begin = 0, end = 0; begin < text.size() && !reader.is_enough(); begin = end) {
    for (end = begin + 1; end < text.size() && !cuts(end);) ++end;
    all.append(reader.read(text.substr(begin, end - begin)));
  }
  all.append(reader.end());
  Whole whole{.reasoning = all.reasoning, .answer = {.content = all.content}, .is_enough = reader.is_enough()};
  for (const CallUpdate& call : all.calls) whole.answer.calls.push_back({call.id, call.name, call.arguments});
  whole.answer.is_whole = reader.has_whole_calls();
  return whole;
}

// Parses the text as a whole, and expects the same result for every way to split it in two, and byte by byte.
Whole read_whole(data::Thinking thinking, const ToolUse* tools, std::string_view text) {
  const Whole whole = read_whole(thinking, tools, text, [](size_t) { return false; });
  EXPECT_EQ(read_whole(thinking, tools, text, [](size_t) { return true; }), whole) << text;
  for (size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(read_whole(thinking, tools, text, [&](size_t i) { return i == cut; }), whole) << text << cut;
  }
  return whole;
}

struct NamedFormat {
  std::string name;
  data::ToolFormat format;
};
void PrintTo(const NamedFormat& named, std::ostream* out) { *out << named.name; }

class CallReaderTest : public ::testing::TestWithParam<NamedFormat> {
 protected:
  [[nodiscard]] ToolUse tools(bool has_answer) const {
    return {.writing = writing_, .has_answer = has_answer, .most_calls = 9};
  }

  data::test::ByteTokenizer tokenizer_;
  std::shared_ptr<const CallWriting> writing_ = std::make_shared<const CallWriting>(tokenizer_, GetParam().format);
  const data::ToolFormat& format_ = writing_->format;
};

TEST_P(CallReaderTest, ReadsCallsHoweverTextIsSplit) {
  constexpr std::array<std::string_view, 10> kWords{"I ",    "look. ",     "\n",          "  ",        "<",
                                                    "<tool", "[TOOL_CALL", "to=function", "{\"name\"", "Ü😀"};
  constexpr std::array<std::string_view, 4> kNames{"f", "get_weather", "Add-2.x", "a1"};
  std::mt19937 random(5);
  for (int round = 0; round < 150; ++round) {
    const bool has_answer = round % 3 != 0;
    Answer expected;
    size_t n = random() % (format_.several ? 4 : 2);
    if (!has_answer) n = std::max(n, size_t{1});
    if (has_answer && (n == 0 || !format_.only_at_start)) expected.content = random_of(random, kWords, 8);
    std::string text = has_answer ? expected.content : format_.before;
    if (n > 0) {  // whitespace before calls isn't content
      expected.content.resize(expected.content.find_last_not_of(" \t\r\n") + 1);
      text += format_.opening;
    }
    for (size_t i = 0, first = random(); i < n; ++i) {
      if (i > 0) text += format_.separator;
      expected.calls.push_back({.name = std::string(kNames[(first + i) % 4]), .arguments = random_arguments(random)});
      text += text_of(format_, expected.calls.back().name, expected.calls.back().arguments);
    }
    if (n > 0) text += format_.closing;
    expected.is_whole = n > 0;
    const ToolUse use = tools(has_answer);
    const Answer whole = read_whole(data::Thinking::None, &use, text).answer;
    ASSERT_EQ(whole, expected) << text;
    const auto some = [&](size_t) { return random() % 5 == 0; };
    ASSERT_EQ(read_whole(data::Thinking::None, &use, text, some).answer, expected) << text;
    for (size_t i = 0; i < n; ++i) {  // calls have different random ids
      EXPECT_EQ(whole.calls[i].id.size(), 9U);
      for (size_t j = 0; j < i; ++j) EXPECT_NE(whole.calls[i].id, whole.calls[j].id);
    }
  }
}

// An output cut off by max_tokens or a stop string gives a prefix of the whole result.
TEST_P(CallReaderTest, TruncatedTextGivesAPrefix) {
  const ToolUse use = tools(true);
  const std::string arguments = R"({"a": "}\"", "b": [{}]})";
  std::string text = format_.opening + text_of(format_, "f", arguments);
  const size_t end_of_call = text.size();
  text += format_.closing;
  for (size_t n = 0; n <= text.size(); ++n) {
    const std::string_view begun = std::string_view(text).substr(0, n);
    const Answer answer = read_whole(data::Thinking::None, &use, begun).answer;
    ASSERT_EQ(answer.is_whole, n >= end_of_call) << begun;
    ASSERT_TRUE(answer.calls.empty() || arguments.starts_with(answer.calls[0].arguments)) << begun;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CallReaderTest,
                         ::testing::Values(NamedFormat{"Hermes", hermes()}, NamedFormat{"Llama31", llama()},
                                           NamedFormat{"Mistral", mistral()}, NamedFormat{"GptOss", gpt_oss()}),
                         ::testing::PrintToStringParamName());

TEST(AnswerReader, SeparatesReasoning) {
  using enum data::Thinking;
  const auto expect = [](data::Thinking thinking, std::string_view text, std::string_view reasoning,
                         std::string_view content) {
    const Whole whole = read_whole(thinking, nullptr, text);
    EXPECT_EQ(whole.reasoning, reasoning) << text;
    EXPECT_EQ(whole.answer.content, content) << text;
  };
  for (const auto& [thinking, begin] : {std::pair(Possible, "<think>"), {Possible, " \n<think>"}, {Begun, ""}}) {
    const std::string text = begin;
    expect(thinking, text + "\n\nwell,\n so</think>\n\nYes.\n", "well,\n so", "Yes.\n");
    expect(thinking, text + "a</think> b</think>", "a", " b</think>");
    expect(thinking, text + "a</thin", "a</thin", "");
    expect(thinking, text + "</think>", "", "");
    expect(thinking, text + "\n<\n</\n\n</think>\n", "<\n</", "");
    expect(thinking, text + "\n", "", "");
    expect(thinking, text + "1 <</think>b", "1 <", "b");
    expect(thinking, text + "a</</think>\n", "a</", "");
  }
  expect(Possible, "  a <think>b</think>", "", "  a <think>b</think>");
  expect(Possible, " <thin", "", " <thin");
  expect(Possible, "<thinking>", "", "<thinking>");
  expect(None, "<think>a</think>b", "", "<think>a</think>b");
}

// A constrained answer may contain the trigger of calls, or begin like a call.
TEST(AnswerReader, ConstrainedAnswersAreNotCalls) {
  const data::test::ByteTokenizer tokenizer;
  for (const auto& [format, text] : {std::pair(hermes(), R"({"a":"Use <tool_call>\n{\"name\": \"x"})"),
                                     {llama(), R"({"name": "Alice", "age": 30})"}}) {
    const auto writing = std::make_shared<const CallWriting>(tokenizer, format);
    const ToolUse tools{.writing = writing, .at_start = true, .most_calls = 3};
    EXPECT_EQ(read_whole(data::Thinking::None, &tools, text).answer, (Answer{.content = text}));
    const std::string call = format.opening + text_of(format, "f", "{}") + format.closing;
    const Answer called{.calls = {{.name = "f", .arguments = "{}"}}, .is_whole = true};
    EXPECT_EQ(read_whole(data::Thinking::None, &tools, call).answer, called);
  }
}

TEST(AnswerReader, StopsAtRepeatedCallsAndTheCallLimit) {
  const data::test::ByteTokenizer tokenizer;
  const auto writing = std::make_shared<const CallWriting>(tokenizer, hermes());
  const ToolUse tools{.writing = writing, .has_answer = true, .most_calls = 3};
  const auto text_of = [&](const std::vector<Call>& calls) {
    std::string text = "I look.\n" + writing->format.opening;
    for (size_t i = 0; i < calls.size(); ++i) {
      text += (i == 0 ? "" : writing->format.separator) + calls[i].name + "\", \"arguments\": " + calls[i].arguments;
    }
    return text + writing->format.closing;
  };
  const Call a{.name = "f", .arguments = R"({"a": 1})"};
  const Call b{.name = "f", .arguments = R"({"a": 12})"};
  const Call c{.name = "ff", .arguments = R"({"a": 1})"};
  const Call d{.name = "f", .arguments = R"({"a": 1, "b": 2})"};
  const auto expect = [&](const std::vector<Call>& calls, const std::vector<Call>& read, bool is_enough) {
    const Whole expected{.answer = {.content = "I look.", .calls = read, .is_whole = true}, .is_enough = is_enough};
    EXPECT_EQ(read_whole(data::Thinking::None, &tools, text_of(calls)), expected);
    EXPECT_EQ(read_whole(data::Thinking::Begun, &tools, "so</think>\n" + text_of(calls)).answer, expected.answer);
  };
  expect({a}, {a}, false);
  expect({a, b}, {a, b}, false);
  expect({a, a}, {a}, true);
  expect({b, a, b, c}, {b, a}, true);
  expect({a, d, c}, {a, d, c}, true);
  expect({a, b, c, d}, {a, b, c}, true);
  expect({c, d, d, a}, {c, d}, true);
  // A repetition of the first call ends the answer and is dropped. A truncated call can't be recognized as a
  // repetition, so it is returned.
  const std::string text = text_of({a, a});
  const Whole cut = read_whole(data::Thinking::None, &tools, text.substr(0, text.rfind("1}") + 1));
  EXPECT_EQ(cut.answer.calls, (std::vector<Call>{a, {.name = "f", .arguments = R"({"a": 1)"}}));
  EXPECT_FALSE(cut.is_enough || cut.answer.is_whole);
}

}  // namespace
}  // namespace folio::infer::server
