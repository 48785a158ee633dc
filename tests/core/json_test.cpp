// Tests core/json.h: JSON that is invalid or exceeds the limits gives an error that names its source.
#include "core/json.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"

namespace folio::core {
namespace {

std::string nested(size_t depth, const std::string& inside = "") {
  return std::string(depth, '[') + inside + std::string(depth, ']');
}

std::string nested_objects(size_t depth) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += R"({"a":)";
  return text + "1" + std::string(depth, '}');
}

TEST(Json, ReadsValues) {
  const auto json = parse_json(R"({"a": [1, -2.5, "é\n", null, true], "b": {}})", "here");
  EXPECT_EQ(json["a"][0], 1);
  EXPECT_EQ(json["a"][2], "é\n");
  EXPECT_TRUE(json["b"].empty());
}

TEST(Json, LimitsNestingTo64) {
  EXPECT_NO_THROW(static_cast<void>(parse_json(nested(64), "here")));
  EXPECT_NO_THROW(static_cast<void>(parse_json(nested(64, "1"), "here")));
  EXPECT_NO_THROW(static_cast<void>(parse_json(nested_objects(64), "here")));
  EXPECT_ERROR(parse_json(nested(65), "here"), "here: JSON nested deeper than 64");
  EXPECT_ERROR(parse_json(nested(65, "1"), "here"), "deeper than 64");
  EXPECT_ERROR(parse_json(nested_objects(65), "here"), "deeper than 64");
  EXPECT_ERROR(parse_json(std::string(1'000'000, '['), "here"), "deeper than 64");
  EXPECT_ERROR(parse_json(nested_objects(200'000), "here"), "deeper than 64");
}

TEST(Json, RejectsRepeatedKeysInAnObject) {
  EXPECT_ERROR(parse_json(R"({"a": 1, "a": 1})", "here"), R"(here: the key "a" occurs twice)");
  EXPECT_ERROR(parse_json(R"({"x": [{"k": 1, "b": {"k": 2}, "k": 3}]})", "here"), R"("k" occurs twice)");
  EXPECT_ERROR(parse_json("{\"a\\u0041\": 1, \"aA\": 2}", "here"), "occurs twice");
  EXPECT_NO_THROW(static_cast<void>(parse_json(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]})", "here")));
}

TEST(Json, RejectsInvalidJson) {
  for (const std::string bad : {"", " ", "{", "[1,]", "{'a': 1}", "nul", "1 2", "{} x", "[1] // no", "NaN", "1e999",
                                "\"\xFF\"", "\"\xED\xA0\x80\"", "\"\n\"", "\"\\ud800\"", "{\"a\" 1}", "+1", "01"}) {
    EXPECT_ERROR(parse_json(bad, "here"), "here: not valid JSON");
  }
  EXPECT_ERROR(parse_json("", "here"), "here: not valid JSON: parse error at line 1, column 1: ");
  EXPECT_ERROR(parse_json("1e999", "here"), "here: not valid JSON: number overflow parsing '1e999'");
}

TEST(Json, GetNamesTheSourceAndTheKey) {
  const auto json = parse_json(R"({"i": 3, "f": 2.5, "s": "x", "b": true, "n": null, "l": ["a"]})", "here");
  EXPECT_EQ(json_get<int64_t>(json, "i", "here"), 3);
  EXPECT_EQ(json_get<float>(json, "f", "here"), 2.5F);
  EXPECT_EQ(json_get<float>(json, "i", "here"), 3.0F);
  EXPECT_EQ(json_get<std::string>(json, "s", "here"), "x");
  EXPECT_TRUE(json_get<bool>(json, "b", "here"));
  EXPECT_EQ(json_get<std::vector<std::string>>(json, "l", "here"), std::vector<std::string>{"a"});
  EXPECT_ERROR(json_get<int64_t>(json, "z", "here"), R"(here: the key "z" is missing)");
  EXPECT_ERROR(json_get<int64_t>(json["i"], "z", "here"), "missing");
}

TEST(Json, AtAndListReturnReferences) {
  const auto json = parse_json(R"({"l": ["a"], "n": null})", "here");
  EXPECT_EQ(&json_at(json, "l", "here"), &json["l"]);
  EXPECT_EQ(&json_list(json, "l", "here"), &json["l"]);
  EXPECT_TRUE(json_at(json, "n", "here").is_null());
  EXPECT_ERROR(json_at(json, "z", "here"), R"(here: the key "z" is missing)");
  EXPECT_ERROR(json_at(json["l"], "z", "here"), R"(here: the key "z" is missing)");
  EXPECT_ERROR(json_list(json, "z", "here"), R"(here: the key "z" is missing)");
  EXPECT_ERROR(json_list(json, "n", "here"), R"(here: the key "n" has a value of the wrong type)");
}

TEST(Json, GetConvertsNothingSilently) {
  const auto json = parse_json(R"({"i": 3, "f": 2.5, "s": "3", "b": true, "n": null, "l": ["a", 1]})", "here");
  for (const char* key : {"f", "s", "b", "n", "l"}) {
    EXPECT_ERROR(json_get<int64_t>(json, key, "here"), std::string("\"") + key + "\"");
  }
  for (const char* key : {"i", "f", "s", "n", "l"}) {
    EXPECT_ERROR(json_get<bool>(json, key, "here"), std::string("\"") + key + "\"");
  }
  for (const char* key : {"s", "b", "n", "l"}) {
    EXPECT_ERROR(json_get<float>(json, key, "here"), std::string("\"") + key + "\"");
    EXPECT_ERROR(json_get<double>(json, key, "here"), std::string("\"") + key + "\"");
  }
  EXPECT_ERROR(json_get<std::string>(json, "i", "here"), "\"i\"");
  EXPECT_ERROR(json_get<std::vector<std::string>>(json, "l", "here"), "\"l\"");
}

TEST(Json, GetNeverWrapsAnInteger) {
  const auto json = parse_json(R"({"big": 18446744073709551615, "five": 4294967301, "minus": -1,
                                   "huge": 123456789012345678901234567890})",
                               "here");
  EXPECT_EQ(json_get<uint64_t>(json, "big", "here"), UINT64_MAX);
  EXPECT_ERROR(json_get<int64_t>(json, "big", "here"), "\"big\"");
  EXPECT_ERROR(json_get<int32_t>(json, "five", "here"), "\"five\"");
  EXPECT_EQ(json_get<int64_t>(json, "five", "here"), 4294967301);
  EXPECT_ERROR(json_get<uint64_t>(json, "minus", "here"), "\"minus\"");
  EXPECT_ERROR(json_get<int64_t>(json, "huge", "here"), "\"huge\"");
}

}  // namespace
}  // namespace folio::core
