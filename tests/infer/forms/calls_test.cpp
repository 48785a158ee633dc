// Tests infer/forms/calls.h: outputs are constrained to function calls in the formats of published chat templates.
#include "infer/forms/calls.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"
#include "tests/data/chat/tool_formats.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

using data::test::hermes;
using data::test::llama;
using Kind = data::CallPiece::Kind;

const char* const kCity = R"({"type": "object", "properties": {"city": {"enum": ["Bern", "Rom"]}}, "required": ["city"],
                             "additionalProperties": false})";
// A schema with two properties, to test the space after the comma between two arguments.
const char* const kBoth =
    R"({"properties": {"a": {"const": [1, {"b": 2}]}, "c": {"type": "null"}}, "required": ["a", "c"],
                             "additionalProperties": false, "type": "object"})";
const char* const kNone = R"({"type": "object", "additionalProperties": false})";

std::shared_ptr<Form> form_of(CallsForm calls, data::Thinking thinking = data::Thinking::None) {
  if (calls.functions.empty()) calls.functions = {{"weather", kCity}, {"time", kNone}};
  FormOptions options{.kind = FormOptions::Kind::Calls, .thinking = thinking};
  options.calls = std::make_shared<CallsForm>(std::move(calls));
  return make_form(options, test::all_bytes());
}

TEST(Calls, AreConstrainedAfterTheTrigger) {
  const auto form = form_of({.format = hermes()});
  const auto is = [&](std::string_view text) { return test::takes(*form, text); };
  const std::string rome = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rom\"}}\n</tool_call>";
  EXPECT_TRUE(is(""));
  EXPECT_TRUE(is("It rains. <tool_cal <tool_cal> <<<tool_\xFF"));
  EXPECT_TRUE(is(rome));
  EXPECT_TRUE(is("I look. <<tool_" + rome));
  EXPECT_TRUE(is(rome + "\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(is(rome + "."));
  EXPECT_FALSE(is("<tool_call>"));
  for (const std::string_view wrong :
       {"<tool_call>\n{\"name\": \"other", "<tool_call>{", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}",
        "<tool_call>\n{\"name\": \"time\", \"arguments\": {\"city",
        "So <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ber\""}) {
    EXPECT_EQ(form->after(form->start(), wrong), Form::kDead) << wrong;
  }
}

TEST(Calls, FollowTheTemplatesWhitespace) {
  data::ToolFormat dense = hermes();
  dense.has_spaces = false;
  for (const bool spaced : {false, true}) {
    const auto form = form_of({.format = spaced ? hermes() : dense, .functions = {{"f", kBoth}}});
    const auto is = [&](const std::string& arguments) {
      return test::takes(*form, "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>");
    };
    EXPECT_EQ(is(R"({"a": [1, {"b": 2}], "c": null})"), spaced);
    EXPECT_EQ(is(R"({"a":[1,{"b":2}],"c":null})"), !spaced);
    EXPECT_FALSE(is(R"({"a": [1,{"b": 2}], "c": null})"));
    EXPECT_FALSE(is(R"({ "a": [1, {"b": 2}], "c": null})"));
  }
}

TEST(Calls, MayBeRequiredAndLimitedToOne) {
  const auto form = form_of({.format = hermes(), .several = false, .has_answer = false});
  EXPECT_EQ(form->forced(form->start()), '<');
  const std::string time = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(test::takes(*form, time));
  EXPECT_EQ(form->after(form->start(), time + "\n"), Form::kDead);
  EXPECT_FALSE(test::takes(*form, ""));
}

TEST(Calls, BeginTheAnswerWithoutATrigger) {
  const auto form = form_of({.format = llama()});
  EXPECT_TRUE(test::takes(*form, "{\"name\": \"time\", \"parameters\": {}}"));
  EXPECT_TRUE(test::takes(*form, "{\"name\" is a key"));
  EXPECT_TRUE(test::takes(*form, " {\"name\": \"x"));
  EXPECT_EQ(form->after(form->start(), "{\"name\": \"x"), Form::kDead);
}

// The server's reader drops reasoning and the newlines after it, so what follows begins the answer.
TEST(Calls, BeginTheAnswerAfterReasoning) {
  using enum data::Thinking;
  for (const auto& [thinking, begin] : {std::pair(Begun, "r"), {Possible, "<think>r"}, {Possible, " <think>r"}}) {
    const auto form = form_of({.format = llama()}, thinking);
    for (const char* end : {"</think>", "</think>\n", "</think>\n\n\n"}) {
      const std::string reasoning = std::string(begin) + end;
      EXPECT_TRUE(test::takes(*form, reasoning + "an answer"));
      EXPECT_EQ(form->after(form->start(), reasoning + "{\"name\": \"x"), Form::kDead) << reasoning;
    }
    const std::string call = "{\"name\": \"time\", \"parameters\": {}}";
    EXPECT_EQ(test::takes(*form, begin + ("</think>\n" + call)), begin[0] != ' ');
  }
}

TEST(Calls, OrAnAnswerWithItsOwnForm) {
  CallsForm calls{.format = llama()};
  calls.answer = {.kind = FormOptions::Kind::JsonObject};
  const auto form = form_of(std::move(calls));
  EXPECT_TRUE(test::takes(*form, "{\"name\": \"time\", \"parameters\": {}}"));
  EXPECT_TRUE(test::takes(*form, "{\"a\":1}"));
  EXPECT_EQ(form->after(form->start(), "It"), Form::kDead);
}

TEST(Calls, HaveIdsIfTheTemplateHasThem) {
  data::ToolFormat mistral{.opening = "[TOOL_CALLS] [{\"name\": \"", .trigger = "[TOOL_CALLS]", .closing = "\"}]"};
  mistral.call = hermes().call;
  mistral.call.push_back({.kind = Kind::Text, .text = ", \"id\": \""});
  mistral.call.push_back({.kind = Kind::Id});
  const auto form = form_of({.format = mistral});
  EXPECT_TRUE(test::takes(*form, "[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {}, \"id\": \"aB3dE6gH9\"}]"));
  EXPECT_FALSE(test::takes(*form, "[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {}, \"id\": \"aB3\"}]"));
}

TEST(Calls, SchemaErrorsNameTheFunction) {
  EXPECT_ERROR(form_of({.format = hermes(), .functions = {{"f", R"({"properties": {"a": {"not": {}}}})"}}}),
               "tools: function f: #/properties/a");
}

}  // namespace
}  // namespace folio::infer::forms
