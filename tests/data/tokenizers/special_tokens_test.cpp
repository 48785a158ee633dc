#include "data/tokenizers/special_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/core/support.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using Ids = std::vector<int32_t>;

SpecialTokens tokens_of(const std::vector<std::string>& texts) {
  std::vector<SpecialToken> tokens;
  for (const std::string& text : texts) tokens.push_back({.text = text, .id = static_cast<int32_t>(tokens.size())});
  return SpecialTokens(std::move(tokens));
}

// Returns the split as a string, with texts in parentheses and tokens in brackets, such as "(a)[0](b)".
std::string split(const SpecialTokens& tokens, std::string_view text) {
  std::string parts;
  const std::array<PromptPiece, 1> piece{{{.text = text, .parse_special = true}}};
  const CutText cut = AddedTokens(tokens).cut(piece);
  for (const CutText::Part& part : cut.parts) {
    parts += part.id >= 0 ? fmt::format("[{}]", part.id) : fmt::format("({})", cut.stretch(part));
  }
  return parts;
}

TEST(SpecialTokens, FindsTheLeftmostThenLongest) {
  const SpecialTokens tokens = tokens_of({"<a>", "<a>b", "b<a", "\xFF", "", "<a>"});
  EXPECT_EQ(split(tokens, "<a>"), "[0]");
  EXPECT_EQ(split(tokens, "x<a>bb<a>"), "(x)[1][2](>)");
  EXPECT_EQ(split(tokens, "<a<a>\xFF\xFE"), "(<a)[0][3](\xFE)");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split(SpecialTokens(), "<a>"), "(<a>)");
  EXPECT_EQ(tokens.id_of("<a>b"), 1);
  EXPECT_EQ(tokens.id_of("<a>c"), -1);
  EXPECT_EQ(tokens.id_of("<a"), -1);
  EXPECT_EQ(tokens.id_of(""), -1);
}

TEST(SpecialTokens, SearchMatchesBruteForce) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> texts;
    for (size_t n = random() % 12; n > 0; --n) texts.push_back(test::random_text(random, {"a", "b", "\xC3"}, 5));
    const SpecialTokens tokens = tokens_of(texts);
    const std::string text = test::random_text(random, {"a", "b", "\xC3"}, 8);
    std::string longest;
    for (const std::string& t : texts) {
      if (text.starts_with(t) && t.size() > longest.size()) longest = t;
    }
    const SpecialToken* found = tokens.begin_of(text);
    ASSERT_EQ(found == nullptr ? "" : found->text, longest) << text;
    ASSERT_EQ(found == nullptr ? "" : texts[static_cast<size_t>(found->id)], longest);
  }
}

TEST(SpecialTokens, PiecesAreEncodedAsOneText) {
  const SentencePieceTokenizer tokenizer = test::tokenizer_of({"▁", "▁ab", "▁a", "a", "b"});
  const std::vector<PromptPiece> pieces = {
      {.text = "a"}, {.text = "b</s> <s>", .parse_special = true}, {.text = "a"}, {.text = "</s>"}};
  Ids expected = tokenizer.encode("ab");
  ASSERT_EQ(expected.size(), 1U);
  const auto add = [&](const Ids& more) { expected.insert(expected.end(), more.begin(), more.end()); };
  add({2});
  add(tokenizer.encode(" "));
  add({1});
  add(tokenizer.encode("a</s>"));
  EXPECT_EQ(tokenizer.encode_pieces(pieces), expected);
}

TEST(SpecialTokens, StripSurroundingSpacesAcrossPieces) {
  SentencePieceVocabulary v = test::vocabulary_of({"▁", "a", "b", "<", "s", ">", "/"});
  v.add_space_prefix = false;
  v.flags[1].rstrip = true;                          // token 1 is <s>
  v.flags[2].lstrip = v.flags[2].normalized = true;  // token 2 is </s>
  const SentencePieceTokenizer tokenizer(v, "the test");
  const auto encode = [&](const std::vector<PromptPiece>& pieces) { return tokenizer.encode_pieces(pieces); };
  const auto with = [&](Ids ids, std::string_view text) {
    for (const int32_t id : tokenizer.encode(text)) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(encode({{.text = "<s> ", .parse_special = true}, {.text = "\n\u2003 a<s>"}}), with({1}, "a<s>"));
  EXPECT_EQ(encode({{.text = "<s>", .parse_special = true}, {.text = " </s>b"}}), with({1}, "</s>b"));
  // A normalized token is only found within one piece of text, where spaces have been replaced by "▁".
  EXPECT_EQ(encode({{.text = "    </s"}, {.text = ">", .parse_special = true}}), tokenizer.encode("    </s>"));
  Ids spaces = tokenizer.encode("    ");
  spaces.push_back(2);
  EXPECT_EQ(encode({{.text = "    "}, {.text = "</s>", .parse_special = true}, {.text = "</s>"}}),
            with(spaces, "</s>"));
  EXPECT_EQ(tokenizer.encode_prompt("</s></s>"), (Ids{1, 2, 2}));
  EXPECT_EQ(tokenizer.encode_prompt("<s></s>"), (Ids{1, 2}));
  EXPECT_EQ(tokenizer.encode_prompt("<s></s>", {.add_special = false}), (Ids{1, 2}));
  EXPECT_EQ(tokenizer.encode_prompt("<s>", {.parse_special = false}), with({1}, "<s>"));
}

TEST(SpecialTokens, EachFormatKeepsEndOfTurnAndChatTemplates) {
  const core::test::TempDir folder;
  SentencePieceVocabulary vocabulary = test::vocabulary_of({"▁", "a"});
  test::add_piece(vocabulary, "<end_of_turn>", 0, PieceType::Control);
  vocabulary.eot = static_cast<int32_t>(vocabulary.pieces.size()) - 1;
  SentencePieceTokenizer tokenizer(vocabulary, "the test");
  const ChatTemplates all{{"default", "{{ bos_token }}"}, {"rag", "r"}, {"tool_use", "t"}};
  tokenizer.set_chat_templates(all);
  EXPECT_TRUE(tokenizer.ends_text(vocabulary.eot));
  EXPECT_FALSE(tokenizer.ends_text(-1));
  EXPECT_FALSE(test::tokenizer_of({"▁"}).ends_text(-1));

  test::write_gguf_file(folder / "a.gguf", tokenizer.to_gguf());
  std::filesystem::create_directory(folder / "hf");
  tokenizer.write_hf(folder / "hf");
  for (const char* name : {"a.gguf", "hf"}) {
    const auto read = load_tokenizer(folder / name, 0);
    EXPECT_TRUE(read->ends_text(vocabulary.eot)) << name;
    EXPECT_EQ(read->chat_templates(), all) << name;
    EXPECT_EQ(read->chat_template(), "{{ bos_token }}") << name;
  }
  tokenizer.set_chat_template("alone");
  EXPECT_EQ(tokenizer.chat_templates(), (ChatTemplates{{"default", "alone"}}));
}

TEST(SpecialTokens, RejectsInvalidChatTemplates) {
  const core::test::TempDir folder;
  test::tokenizer_of({"▁"}).write_hf(folder.path());
  const auto with = [&](const std::string& value) {
    core::test::write_bytes(folder / "tokenizer_config.json",
                            R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": )" + value + "}");
    return load_tokenizer(folder.path(), 0)->chat_template();
  };
  EXPECT_EQ(with("[]"), "");
  EXPECT_ERROR(with("7"), "tokenizer_config.json: chat_template");
  EXPECT_ERROR(with(R"([{"name": "default"}])"), "template");
}

TEST(SpecialTokens, GgufStoresAdditionalEosTokens) {
  SentencePieceVocabulary vocabulary = test::vocabulary_of({"▁", "a"});
  for (const char* piece : {"<x>", "<y>", "<z>"}) test::add_piece(vocabulary, piece, 0, PieceType::Control);
  const auto n = static_cast<int32_t>(vocabulary.pieces.size());
  SentencePieceTokenizer tokenizer(vocabulary, "the test");
  tokenizer.end_at({vocabulary.eos, n - 3, n - 1});
  EXPECT_TRUE(tokenizer.ends_text(n - 3) && tokenizer.ends_text(n - 1) && !tokenizer.ends_text(n - 2));
  const auto read = test::read_gguf(tokenizer.to_gguf());  // stored as eot_token_id and eom_token_id
  EXPECT_TRUE(read->ends_text(n - 3) && read->ends_text(n - 1) && !read->ends_text(n - 2));
}

}  // namespace
}  // namespace folio::data
