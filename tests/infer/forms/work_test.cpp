// Tests limits on the work, counted in steps, of compiling a form (an output constraint) and computing its masks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "infer/forms/calls.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

using Kind = FormOptions::Kind;

std::string repeated(const std::string& part, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += part;
  return all;
}

// Returns an object schema with n properties that all have `schema`. Titles differ, so that properties share no states.
std::string object_of(const std::string& schema, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) {
    all += fmt::format(R"({}"p{}":{{"title":"{}",{})", i > 0 ? "," : "", i, i, schema.substr(1));
  }
  return R"({"properties":{)" + all + "}}";
}

FormOptions tools_of(const std::string& schema, size_t n) {
  using Piece = data::CallPiece::Kind;
  CallsForm calls;
  calls.format = {.opening = "<", .trigger = "<", .call = {{.kind = Piece::Name}, {.kind = Piece::Arguments}}};
  for (size_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    calls.functions.push_back(
        {.name = "f" + number, .parameters = schema, .place = "[" + number + "].function.parameters"});
  }
  return {.kind = Kind::Calls, .calls = std::make_shared<CallsForm>(calls)};
}

// Returns the path of the request's field whose compilation exceeds the budget, or an empty string if none does.
std::string place_of(const FormOptions& options, const core::WorkBudget& budget) {
  try {
    static_cast<void>(make_form(options, test::all_bytes(), budget));
  } catch (const core::TooMuchWork& error) {
    EXPECT_NE(std::string(error.what()).find(error.place()), std::string::npos);
    return error.place();
  }
  return {};
}

// Requests of 64 to 450 KB whose forms would take from a second to minutes to compile are rejected.
TEST(FormWork, WhatTakesMoreThanTheBudgetIsRejectedWithItsPlace) {
  const std::string pattern = R"({"enum":["a"],"pattern":"^(a|b)*a(a|b){9}$"})";
  EXPECT_EQ(place_of({.kind = Kind::JsonSchema, .text = object_of(pattern, 480)}, core::WorkBudget()).substr(0, 24),
            "json_schema.properties.p");
  const std::string bounded = R"({"pattern":"^(a|b)*a(a|b){9}$","minLength":2})";
  const std::string place = place_of({.kind = Kind::JsonSchema, .text = object_of(bounded, 480)}, core::WorkBudget());
  EXPECT_TRUE(place.starts_with("json_schema.properties.p") && place.ends_with(".pattern")) << place;
  EXPECT_EQ(place_of({.kind = Kind::Regex, .text = "[" + repeated("\\pL", 21'000) + "]"}, core::WorkBudget()), "regex");
  EXPECT_EQ(place_of({.kind = Kind::Regex, .text = repeated("\\pL", 21'000)}, core::WorkBudget()), "regex");
  const std::string in_tools = place_of(tools_of(object_of(pattern, 40), 128), core::WorkBudget());
  EXPECT_TRUE(in_tools.starts_with("tools[")) << in_tools;
  EXPECT_NE(in_tools.find("].function.parameters.properties.p"), std::string::npos) << in_tools;
}

// For each kind of output constraint, compiling it twice takes the same number of steps. A budget of this number is
// enough, and half of it is too small.
TEST(FormWork, IsDeterministicAndFullyCounted) {
  std::vector<std::string> choices;
  for (int i = 0; i < 500; ++i) choices.push_back("choice " + std::to_string(i));
  const std::vector<FormOptions> all{
      {.kind = Kind::Regex, .text = "(a|b){2,300}[\\pL]*"},
      {.kind = Kind::Grammar, .text = "root ::= \"a\" | [^\"\\x00-\\x1f]{3,200} root?"},
      {.kind = Kind::JsonSchema, .text = object_of(R"({"type":"integer","minimum":-98765,"maximum":12345})", 20)},
      {.kind = Kind::JsonSchema, .text = R"({"oneOf":[{"const":")" + repeated("x", 9000) + R"("},{"const":"b"}]})"},
      {.kind = Kind::JsonObject},
      {.kind = Kind::Choice, .choices = choices},
      tools_of(object_of(R"({"type":"string","maxLength":20})", 3), 4)};
  for (const FormOptions& options : all) {
    const core::WorkBudget first;
    const core::WorkBudget second;
    EXPECT_EQ(place_of(options, first), "");
    EXPECT_EQ(place_of(options, second), "");
    EXPECT_GT(first.spent(), 0U);
    EXPECT_EQ(first.spent(), second.spent());
    EXPECT_EQ(place_of(options, core::WorkBudget(first.spent())), "");
    EXPECT_NE(place_of(options, core::WorkBudget(first.spent() / 2)), "");
  }
}

TEST(FormWork, CompilationCanBeCancelled) {
  const core::WorkBudget budget;
  budget.cancel();
  EXPECT_THROW(static_cast<void>(make_form({.kind = Kind::Regex, .text = "a"}, test::all_bytes(), budget)),
               core::WorkCancelled);
}

// The start state has many parses, each of which continues differently, so computing its mask exceeds the work limit.
TEST(FormWork, MaskComputationIsBounded) {
  Grammar grammar;
  const Grammar::Rule rule = grammar.declare();
  grammar.define(rule, regex_part(grammar, "(.|..|...)*a.{40}"));
  grammar.finish(rule);
  Form form(grammar, test::all_bytes(), Form::kMostBytes, 100);
  EXPECT_THROW(static_cast<void>(form.allowed(form.start())), core::Error);
  Form enough(std::move(grammar), test::all_bytes());
  EXPECT_FALSE(enough.allowed(enough.start()).empty());
}

}  // namespace
}  // namespace folio::infer::forms
