#include "data/tokenizers/char_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/data/support.h"

namespace folio::data {
namespace {

using core::test::TempDir;

using Strings = std::vector<std::string>;

constexpr const char* kText = "Hé 中\n😀 né中e😁\n";

CharTokenizer tokenizer_of(std::string_view text) { return CharTokenizer::from_text(text, "the test"); }

// Returns the GGUF file of a tokenizer.
core::GgufFile written(const TempDir& folder, const CharTokenizer& tokenizer) {
  test::write_gguf_file(folder / "model.gguf", tokenizer.to_gguf());
  return core::GgufFile(folder / "model.gguf");
}

TEST(CharTokenizer, VocabularyIsSortedCharactersThenEndOfText) {
  const CharTokenizer tokenizer = tokenizer_of("banana 中é\n");
  EXPECT_EQ(tokenizer.characters(), (std::vector<std::string>{"\n", " ", "a", "b", "n", "é", "中"}));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.end_of_text(), 7);
  EXPECT_EQ(tokenizer.token_bytes(7), "");
  EXPECT_EQ(tokenizer.suppressed_tokens(), (std::vector<int32_t>{7}));
  EXPECT_EQ(tokenizer.encode("ban中"), (std::vector<int32_t>{3, 2, 4, 6}));
}

TEST(CharTokenizer, DecodeInvertsEncode) {
  const CharTokenizer tokenizer = tokenizer_of(kText);
  for (const std::string text : {kText, "", "\n", "中中é", "e"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.decode({0, tokenizer.end_of_text(), 0}), "\n\n");
}

TEST(CharTokenizer, ErrorsLocateUnknownCharacters) {
  const CharTokenizer tokenizer = tokenizer_of("abé\n");
  EXPECT_ERROR(tokenizer.encode("ab\néaéX"), "the character \"X\" (U+0058) at line 2, column 4");
  EXPECT_ERROR(tokenizer.encode("中"), "\"中\" (U+4E2D) at line 1, column 1");
  EXPECT_ERROR(tokenizer.encode("a\tb"), "(U+0009) at line 1, column 2");
  EXPECT_ERROR(tokenizer.encode("<|endoftext|>"), "\"<\"");
}

TEST(CharTokenizer, ErrorsLocateInvalidUtf8) {
  EXPECT_ERROR(tokenizer_of("ab\nc\xFFz"), "the test: invalid UTF-8 at line 2, column 2 (byte 4, value 0xFF)");
  EXPECT_ERROR(tokenizer_of("\xC3"), "invalid UTF-8 at line 1, column 1");  // truncated
  EXPECT_ERROR(tokenizer_of("a\xC0\xAF"), "value 0xC0");                    // overlong
  EXPECT_ERROR(tokenizer_of("\xED\xA0\x80"), "value 0xED");                 // a surrogate
  EXPECT_ERROR(tokenizer_of("abc").encode("ab\x80"), "invalid UTF-8 at line 1, column 3");
}

TEST(CharTokenizer, EncodesMegabytesInLinearTime) {
  std::string text;
  while (text.size() < 3'000'000) text += "Shall I compare thee to a summer's day?\n";
  const CharTokenizer tokenizer = tokenizer_of(text);
  // A quadratic algorithm, such as one that counts each character's line and column from the start, would take an hour.
  EXPECT_EQ(tokenizer.encode(text).size(), text.size());
}

TEST(CharTokenizer, RejectsAnEmptyText) { EXPECT_ERROR(tokenizer_of(""), "the text is empty"); }

TEST(CharTokenizer, RequiresDistinctSingleCharacters) {
  EXPECT_ERROR(CharTokenizer({}, "here"), "here: the vocabulary is empty");
  EXPECT_ERROR(CharTokenizer({"a", "bc"}, "here"), "here: token 1 (\"bc\") is not one character");
  EXPECT_ERROR(CharTokenizer({"a", ""}, "here"), "token 1");
  EXPECT_ERROR(CharTokenizer({"a", "\xC3"}, "here"), "token 1");
  EXPECT_ERROR(CharTokenizer({"a", "b", "a"}, "here"), "\"a\" occurs twice");
}

TEST(CharTokenizer, RejectsIdsOutsideTheVocabulary) {
  const CharTokenizer tokenizer = tokenizer_of("ab");
  EXPECT_ERROR(tokenizer.token_bytes(3), "token 3 is outside the vocabulary of 3");
  EXPECT_ERROR(tokenizer.token_bytes(-1), "token -1");
}

TEST(CharTokenizer, DefaultPromptIsANewlineIfKnown) {
  const CharTokenizer with = tokenizer_of("\tb\na");
  EXPECT_EQ(with.decode(with.default_prompt()), "\n");
  EXPECT_EQ(tokenizer_of("ba").default_prompt(), (std::vector<int32_t>{0}));
}

TEST(CharTokenizerGguf, AsciiHasAnEmptyMergeList) {
  const TempDir folder;
  const core::GgufFile file = written(folder, tokenizer_of("To be\n"));
  EXPECT_EQ(file.string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.list<std::string>("tokenizer.ggml.tokens"), (Strings{"Ċ", "Ġ", "T", "b", "e", "o", "<|endoftext|>"}));
  EXPECT_EQ(file.list<int32_t>("tokenizer.ggml.token_type"), (std::vector<int32_t>{1, 1, 1, 1, 1, 1, 3}));
  EXPECT_TRUE(file.list<std::string>("tokenizer.ggml.merges").empty());
  EXPECT_EQ(std::get<uint32_t>(*file.find("tokenizer.ggml.bos_token_id")), 6U);
  EXPECT_EQ(std::get<uint32_t>(*file.find("tokenizer.ggml.eos_token_id")), 6U);
  EXPECT_FALSE(file.boolean("tokenizer.ggml.add_bos_token"));
}

TEST(CharTokenizerGguf, MergesJoinTheBytesOfACharacter) {
  const TempDir folder;
  const core::GgufFile file = written(folder, tokenizer_of("é中😀😁"));
  EXPECT_EQ(file.list<std::string>("tokenizer.ggml.tokens"), (Strings{"Ã©", "ä¸Ń", "ðŁĺĢ", "ðŁĺģ", "<|endoftext|>"}));
  // Characters with the same first bytes share merges.
  EXPECT_EQ(file.list<std::string>("tokenizer.ggml.merges"),
            (Strings{"Ã ©", "ä ¸", "ä¸ Ń", "ð Ł", "ðŁ ĺ", "ðŁĺ Ģ", "ðŁĺ ģ"}));
}

TEST(CharTokenizerGguf, RejectsOtherVocabulariesByName) {
  const auto read_with = [](const std::string& key, const core::GgufValue& value) {
    return test::read_changed_gguf(tokenizer_of("ab"), key, value);
  };
  EXPECT_ERROR(read_with("model", std::string("t5")), "\"t5\"");
  EXPECT_ERROR(read_with("tokens", core::GgufArray{Strings{"a", "b"}}), "2 pieces, but 3 types");
  EXPECT_ERROR(read_with("tokens", core::GgufArray{Strings{}}), "model.gguf");
  EXPECT_EQ(read_with("tokens", core::GgufArray{Strings{"ab", "b", "<|endoftext|>"}})->kind(), "byte-level BPE");
  EXPECT_ERROR(read_with("tokens", core::GgufArray{Strings{"\n", "b", "<|endoftext|>"}}), "alphabet");
  EXPECT_ERROR(read_with("tokens", core::GgufArray{std::vector<int32_t>{1, 2}}), "tokens");
  EXPECT_ERROR(read_with("eos_token_id", uint32_t{3}), "eos_token_id is 3, but IDs are 0 to 2");
}

TEST(CharTokenizerHf, ErrorsNameDamagedFiles) {
  const auto read = [&](const std::string& text) { return CharTokenizer::from_hf(nlohmann::json::parse(text), "f"); };
  const auto model = [](const std::string& vocabulary, const std::string& merges = "[]") {
    return "{\"model\":{\"vocab\":" + vocabulary + ",\"merges\":" + merges + "}}";
  };
  EXPECT_ERROR(read("{}"), "\"model\" is missing");
  EXPECT_ERROR(read(model("[]")), "not a character tokenizer");
  EXPECT_ERROR(read(model(R"({"a":0,"<|endoftext|>":1})", R"(["a b"])")), "not a character tokenizer");
  EXPECT_ERROR(read(model(R"({"a":0,"<|endoftext|>":2})")), "vocabulary's IDs are not 0 to 1");
  EXPECT_ERROR(read(model(R"({"a":1,"<|endoftext|>":1})")), "vocabulary's IDs");
  EXPECT_ERROR(read(model(R"({"a":-1,"<|endoftext|>":1})")), "vocabulary's IDs");
  EXPECT_ERROR(read(model(R"({"a":0,"b":1})")), "the last token");
  EXPECT_ERROR(read(model(R"({})")), "the last token");
  EXPECT_ERROR(read(model(R"({"<|endoftext|>":0})")), "the vocabulary is empty");
  EXPECT_ERROR(read(model(R"({"ab":0,"<|endoftext|>":1})")), "not one character");
}

}  // namespace
}  // namespace folio::data
