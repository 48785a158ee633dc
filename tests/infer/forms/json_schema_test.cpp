// Tests JSON schemas as output constraints: the accepted outputs and JSON formatting, and errors for rejected schemas.
// json_schema_oracle_test.py compares random schemas with the jsonschema package.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/forms/forms.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

std::shared_ptr<Form> form_of(std::string_view schema, JsonSpaces spaces = JsonSpaces::None) {
  return test::form_of(test::all_bytes(), [&](Grammar& grammar) { return json_schema_part(grammar, schema, spaces); });
}

std::string refusal(std::string_view schema) {
  return core::test::message_of([&] { static_cast<void>(form_of(schema)); });
}

void expect(std::string_view schema, std::vector<std::string> taken, std::vector<std::string> others) {
  test::expect_texts({{schema, std::move(taken), std::move(others)}}, [](auto source) { return form_of(source); });
}

TEST(JsonSchema, DeclaredPropertiesComeFirstInOrder) {
  expect(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b"]})",
         {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":1,"aa":{}})", R"({"b":null,"c":1,"c":2})"},
         {R"({})", R"({"a":null})", R"({"b":null,"a":null})", R"({"c":1,"b":null})", R"({"b":null,"b":null})",
          R"({"b":null,"c":1,"a":null})", R"({"b":null,})", R"({,"b":null})", R"({"b":null,"\u0061":1})"});
  EXPECT_EQ(refusal(R"({"type":"object","properties":{"a":{}},"additionalProperties":false,"required":["z"]})"),
            "no output can match it");
}

TEST(JsonSchema, WhitespaceIsAllowedWhereJsonAllowsIt) {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},
                           "c":{"const":{"x":[1]}}}})";
  const char* spaced = "{ \"a\" : [ 1 ,\n\t2 ] , \"c\":{ \"x\" : [ 1 ] } , \"d\": { } \r}";
  const char* dense = R"({"a":[1,2],"c":{"x":[1]},"d":{}})";
  expect(schema, {dense}, {spaced});
  test::expect_texts({{schema, {spaced, dense}, {R"({"a":[1 2]})"}}},
                     [](auto source) { return form_of(source, JsonSpaces::Anywhere); });
}

TEST(JsonSchema, StringsMayBeEscapedAndCountCodePoints) {
  expect(R"({"type":"string","minLength":1,"maxLength":2})",
         {R"("a")", R"("é😀")", R"("\ud83d\ude00\n")", R"("\uD83D\uDE00")", R"("\/\u0000")", "\"\x7f\"", R"("\\\"")"},
         {R"("")", R"("abc")", R"("\ud83d")", R"("\ude00")", R"("\ud83da")", R"("\ud83d\u0041")", "\"\n\"", R"("\x")",
          "\"\xff\"", R"("\u12")", R"("\a")"});
}

TEST(JsonSchema, KeysAndConstantsHaveOneSpelling) {
  expect(R"({"enum":["é\n\u001f/",[1,{"b":2,"a":1}],1.0]})", {"\"é\\n\\u001f/\"", R"([1,{"b":2,"a":1}])", "1.0"},
         {R"("\u00e9\n\u001f/")", R"("é\n\u001F/")", R"([1,{"a":1,"b":2}])", "1"});
  expect(R"({"type":"object","additionalProperties":{"type":"null"}})", {R"({"\n":null})", R"({"":null})"},
         {R"({"\u000a":null})", R"({"\/":null})", "{\"\xed\xa0\x80\":null}"});
}

TEST(JsonSchema, NumbersAreComparedAsDecimals) {
  expect(R"({"type":"integer","minimum":-12,"exclusiveMaximum":130})", {"-12", "-9", "-1", "0", "9", "129", "99"},
         {"-13", "-100", "130", "200", "1000", "-0", "01", "1.0", "1e1"});
  expect(R"({"type":"integer","multipleOf":7,"minimum":50})", {"56", "63", "700", "7000007"}, {"49", "7", "57", "-7"});
  expect(R"({"type":"number","minimum":0.1,"maximum":2.5})",
         {"0.1", "0.10", "0.2", "1", "2.5", "2.500", "2.49999", "1e0", "1.5E-01", "2.5e+0", "1e-1"},
         {"0.09", "2.51", "0", "-1", "3", "10", "1e1", "1e-2", "9e-2", "2.6e0", "0.15e1", "15e-1", "2.5000001"});
  expect(R"({"type":"number","exclusiveMinimum":0})", {"0.1", "1e-307", "5", "0.001", "1e307"},
         {"0", "0.0", "-0.0", "-1", "1e-308", "1e308"});
  expect(R"({"type":"number","exclusiveMaximum":1e-330})", {"0", "-1"}, {"1e-300", "1"});  // 1e-330 is no double
  expect(R"({"type":"number","exclusiveMaximum":1})", {"0.9999999999999999", "-5"},
         {"0.99999999999999999", "1", "1.0"});
}

TEST(JsonSchema, ErrorsLocateUnsupportedKeywords) {
  EXPECT_EQ(refusal(R"({"properties":{"a":{"not":{}}}})"), "#/properties/a: 'not' is not supported");
  EXPECT_EQ(
      refusal(R"({"items":{"anyOf":[{"uniqueItems":true}]}})"),
      "#/items/anyOf/0: 'uniqueItems' is only supported for items with few values (enum, const, booleans, integers "
      "with 'minimum' and 'maximum'), or with 'maxItems' 1");
  EXPECT_EQ(
      refusal(R"({"items":{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":1,"maximum":99}}})"),
      "#/items: 'uniqueItems' has too many combinations of 99 values; set a smaller 'maxItems'");
  EXPECT_EQ(refusal(R"({"properties":{"a":{"nullable":true,"minLength":1}}})"),
            "#/properties/a: 'nullable' requires 'type'; or use 'anyOf' with {\"type\": \"null\"}");
  const std::string tagged =
      R"({"$defs":{"x":{"properties":{"k":{"const":"x"}}},"y":{"properties":{"k":{"const":"y"}}}},)"
      R"("oneOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}],"discriminator":)";
  EXPECT_EQ(refusal(tagged + R"({"propertyName":"k","mapping":{"x":"#/$defs/x"}}})"), "");
  EXPECT_EQ(refusal(tagged + R"({"propertyName":"j"}})"),
            "#: 'discriminator' requires 'j' to be a 'const' or 'enum' of strings in each branch");
  EXPECT_EQ(refusal(tagged + R"({"propertyName":"k","mapping":{"x":"#/$defs/y"}}})"),
            "#: the 'mapping' of 'discriminator' maps x to #/$defs/y, which is not a branch with that value");
  EXPECT_EQ(refusal(tagged + R"({"mapping":{}}})"),
            "#: 'discriminator' must have a string 'propertyName' and may have an object 'mapping'");
  EXPECT_EQ(refusal(R"({"items":{"type":"object","discriminator":{"propertyName":"k"}}})"),
            "#/items: 'discriminator' is only supported next to 'oneOf' or 'anyOf'");
  EXPECT_EQ(refusal(R"({"$ref":"other.json"})"),
            "#: '$ref' \"other.json\" is not supported; only \"#\" and \"#/…\" are");
  EXPECT_EQ(refusal(R"({"minimum":"1"})"), "#: 'minimum' \"1\" is not supported");
  EXPECT_EQ(refusal(R"({"minLength":10000000})"), "#: 'minLength' exceeds 9999999");
  EXPECT_EQ(refusal(R"({"properties":{"a":{"$ref":"#/properties/a"}}})"),
            "the rule #/properties/a is left-recursive, which is not supported; use a repetition");
  EXPECT_EQ(refusal(R"({"$schema":"http://localhost/mine.json"})"),
            "#: '$schema' \"http://localhost/mine.json\" is not supported; only drafts of json-schema.org are");
  for (const char* schema :
       {"", "{", "3", "[]", R"({"type":"text"})", R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
        R"({"$ref":"#"})", R"({"$ref":"#/$defs/a"})",
        R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})",
        R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", R"({"a":1,"a":2})", R"({"multipleOf":0.5})",
        R"({"type":"array","minItems":1000000})", R"({"type":"string","maxLength":99999999})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "false"}) {
    EXPECT_NE(refusal(schema), "") << schema;
    EXPECT_EQ(refusal(schema).find('\n'), std::string::npos) << schema;
  }
}

// Returns a schema of 28 definitions that each combine the next one twice. Naive expansion would visit 2^28 schemas.
std::string doubling(const std::string& combination, const std::string& last) {
  std::string schema = R"({"$ref":"#/$defs/0","type":"string","$defs":{)";
  for (int i = 0; i < 28; ++i) {
    schema +=
        fmt::format(R"("{0}":{{"{1}":[{{"$ref":"#/$defs/{2}"}},{{"$ref":"#/$defs/{2}"}}]}},)", i, combination, i + 1);
  }
  return schema + R"("28":)" + last + "}}";
}

std::string members(int n, const std::string& member) {
  std::string all;
  for (int i = 0; i < n; ++i)
    all += fmt::format(R"({}"p{}":{})", i > 0 ? "," : "", i, fmt::format(fmt::runtime(member), i));
  return "{" + all + "}";
}

// The numbers of schemas, alternatives and states are limited during expansion, so that a schema can't fill memory.
TEST(JsonSchema, RejectsSchemasThatGrowTooLarge) {
  std::string nested = "true";
  for (int i = 0; i < 20; ++i) nested = fmt::format(R"({{"items":{},"maxItems":3000}})", nested);
  std::string alternatives;
  for (int i = 0; i < 9; ++i) {
    alternatives +=
        fmt::format(R"({}{{"anyOf":[{{"minLength":{}}},{{"maxLength":{}}}]}})", i > 0 ? "," : "", i, 100 + i);
  }
  std::string patterns;
  for (const char c : std::string_view("abcdefgh")) {
    patterns += fmt::format(R"({}{{"pattern":"{}(a|b){{6}}"}})", c > 'a' ? "," : "", c);
  }
  std::string values;
  for (int i = 0; i < 60'000; ++i) values += fmt::format("{}\"{}\"", i > 0 ? "," : "", i * 7919);
  const std::vector<std::pair<std::string, std::string_view>> cases{
      {doubling("allOf", "{}"), "too large after expanding"},
      {doubling("allOf", R"({"type":"string"})"), "expand to more than 4000 schemas"},
      {doubling("anyOf", R"({"type":"string"})"), "more than 256 alternatives"},
      {doubling("anyOf", "false"), "too large after expanding"},
      {doubling("oneOf", "false"), "too large after expanding"},
      {nested, "more than 200000 states"},
      {fmt::format(R"({{"allOf":[{}]}})", alternatives), "more than 256 alternatives"},
      {fmt::format(R"({{"enum":[{}]}})", values), "bytes, but at most "},
      {fmt::format(R"({{"properties":{}}})", members(300, R"({{"type":"string","maxLength":2{:03}}})")),
       "more than 200000 states"},
      {R"({"pattern":"(a|b)*a(a|b){20}","maxLength":100})", "too large to combine with other constraints"},
      {fmt::format(R"({{"allOf":[{}]}})", patterns), "too large to combine with other constraints"},
      {R"({"format":"email","maxLength":1500})", "more than 200000 states when combined with the other constraints"},
      {R"({"pattern":"^\\p{L}*$","maxLength":5000})", "too large to combine with other constraints"},
      {R"({"$ref":"#/$defs/Pet","$defs":{
           "Pet":{"discriminator":{"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"}]},
           "Cat":{"allOf":[{"$ref":"#/$defs/Pet"},{"properties":{"kind":{"const":"cat"}}}]}}})",
       "#/$defs/Pet: refers to itself or is nested too deeply"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_NE(refusal(schema).find(message), std::string::npos) << schema.substr(0, 200) << ": " << refusal(schema);
  }
}

// The first properties that the branches share contain the oneOf again and don't distinguish them; `op` does.
TEST(JsonSchema, BranchesOfOneOfMayContainIt) {
  const auto trees = [](std::string_view discriminator, std::string_view left) {
    return fmt::format(R"({{"$ref":"#/$defs/E","$defs":{{
        "E":{{"oneOf":[{{"$ref":"#/$defs/A"}},{{"$ref":"#/$defs/M"}},{{"$ref":"#/$defs/N"}}]{}}},
        "A":{{"type":"object","required":["l","op"],"properties":{{"l":{{"$ref":"#/$defs/E"}},"op":{{"const":"+"}}}}}},
        "M":{{"type":"object","required":["l","op"],"properties":{{"l":{},"op":{{"const":"*"}}}}}},
        "N":{{"type":"object","properties":{{"op":{{"const":"n"}}}},"required":["op"]}}}}}})",
                       discriminator, left);
  };
  for (const char* discriminator : {"", R"(,"discriminator":{"propertyName":"op"})"}) {
    for (const char* left : {R"({"$ref":"#/$defs/E"})", R"({"anyOf":[{"$ref":"#/$defs/E"},{"type":"null"}]})"}) {
      expect(trees(discriminator, left), {R"({"l":{"l":{"op":"n"},"op":"*"},"op":"+"})"},
             {R"({"l":{"op":"n"},"op":"-"})"});
    }
  }
  EXPECT_EQ(refusal(R"({"oneOf":[{"type":"object","required":["n"],"properties":{"n":{"$ref":"#"}}},
                                 {"type":"object","required":["n"],"properties":{"n":{"$ref":"#"}}}]})"),
            "#: 'oneOf' is only supported if no value can match two branches, but branches 0 and 1 may overlap; use "
            "'anyOf'");
}

TEST(JsonSchema, EquivalentSchemasShareStates) {
  const auto n_states = [](const std::string& schema) {
    Grammar grammar;
    const Grammar::Rule rule = grammar.declare();
    grammar.define(rule, json_schema_part(grammar, schema, JsonSpaces::None));
    return grammar.n_states();
  };
  const std::string bounded = R"({{"type":"string","maxLength":2000}})";
  const size_t one = n_states(fmt::format(R"({{"properties":{},"additionalProperties":false}})", members(1, bounded)));
  const size_t many =
      n_states(fmt::format(R"({{"properties":{},"additionalProperties":false}})", members(400, bounded)));
  EXPECT_LT(many, one + 400 * 50);
}

// The lengths are those of pydantic.HttpUrl, of an email address and of an IPv6 address.
TEST(JsonSchema, PatternsFormatsAndMultiplesMayHaveLargeBounds) {
  const std::string path(2'000, 'a');
  expect(R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})",
         {R"("https://u@a.example:80/b%20?c#d")", fmt::format("\"https://example.com/{}\"", path)},
         {R"("")", fmt::format("\"https://example.com/{}{}\"", path, path.substr(0, 64))});
  expect(R"({"type":"string","format":"email","maxLength":254})", {R"("a@b.c")"}, {R"("a@")"});
  expect(R"({"type":"string","format":"ipv6","maxLength":45})", {R"("::ffff:1.2.3.4")"}, {R"(":")"});
  expect(R"({"type":"string","pattern":"foo","maxLength":5000})", {R"("a foo")"}, {R"("fo")"});
  expect(R"({"type":"integer","multipleOf":1000,"minimum":0,"maximum":1000000000})", {"17000"}, {"1500", "1000001000"});
}

TEST(JsonSchema, PatternPropertiesMatchByName) {
  expect(
      R"({"type":"object","properties":{"a1":{"type":"integer"}},"patternProperties":{"^a":{"enum":[1,2,"x"]},"1$":{}},
             "additionalProperties":{"type":"null"}})",
      {R"({"a1":1})", R"({"ab":"x"})", R"({"b1":[]})", R"({"b":null})", R"({"a1":2,"a2":"x","\n":null})"},
      {R"({"a1":"x"})", R"({"ab":3})", R"({"a11":3})", R"({"b":1})", R"({"ab":1,"a1":1})"});
  expect(R"({"type":"string","pattern":"^[a-z]+$","maxLength":3})", {R"("a")", R"("abc")", R"("\u0061")"},
         {R"("")", R"("abcd")", R"("A")"});
}

}  // namespace
}  // namespace folio::infer::forms
