#include "data/tokenizers/llama2c/llama2c_vocabulary.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/tokenizers/tokenizer_files.h"
#include "tests/core/support.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using core::test::raw;
using core::test::TempDir;
using core::test::write_bytes;
using test::add_piece;
using test::tokenizer_of;
using test::vocabulary_of;

std::string entry(const std::string& piece, float score = 0) {
  return raw(score) + raw(static_cast<int32_t>(piece.size())) + piece;
}

// Returns a tokenizer.bin with the 259 entries that every such file has, followed by `pieces`.
std::string file_of(const std::vector<std::string>& pieces, int32_t longest = 6) {
  std::string bytes = raw(longest) + entry("<unk>") + entry("\n<s>\n") + entry("\n</s>\n");
  for (int b = 0; b < 256; ++b) bytes += entry(byte_piece(static_cast<uint8_t>(b)));
  for (size_t i = 0; i < pieces.size(); ++i) bytes += entry(pieces[i], -static_cast<float>(i));
  return bytes;
}

// Returns the ids that llama2.c gives after BOS: the id of a leading space (-1 if there is no such piece), and the id
// of each character or, if it is no piece, the ids of its bytes. Doesn't merge, so no two pieces may form a third.
std::vector<int32_t> encode_like_llama2c(const std::vector<std::string>& pieces, const std::string& text) {
  const auto lookup = [&](const std::string& piece) {
    const auto found = std::find(pieces.begin(), pieces.end(), piece);
    return found == pieces.end() ? -1 : static_cast<int32_t>(found - pieces.begin());
  };
  std::vector<int32_t> ids;
  if (!text.empty()) ids.push_back(lookup(" "));
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    while (at + length < text.size() && (text[at + length] & 0xC0) == 0x80) ++length;
    const int32_t id = lookup(text.substr(at, length));
    if (id >= 0) {
      ids.push_back(id);
    } else {
      for (size_t i = 0; i < length; ++i) ids.push_back(3 + static_cast<unsigned char>(text[at + i]));
    }
    at += length;
  }
  return ids;
}

bool joins_make_a_piece(const std::vector<std::string>& pieces) {
  for (const std::string& a : pieces) {
    for (const std::string& b : pieces) {
      if (std::find(pieces.begin(), pieces.end(), a + b) != pieces.end()) return true;
    }
  }
  return false;
}

// ---- Character vocabularies for llama2.c ----

class Llama2cCharacters : public testing::TestWithParam<const char*> {};

TEST_P(Llama2cCharacters, IdsMapToTheCharactersRows) {
  const CharTokenizer tokenizer = CharTokenizer::from_text(GetParam(), "the test");
  const Llama2cVocabulary v = to_llama2c(tokenizer);
  ASSERT_FALSE(joins_make_a_piece(v.pieces));
  for (const std::string& text : {std::string(GetParam()), tokenizer.characters()[0], std::string()}) {
    std::vector<int32_t> ids = encode_like_llama2c(v.pieces, text);
    if (!text.empty()) {
      EXPECT_EQ(ids[0], 3 + ' ');  // not -1, which llama2.c would use as an index
      ids.erase(ids.begin());
    }
    std::vector<int32_t> rows;
    for (const int32_t id : ids) rows.push_back(v.source_row.at(static_cast<size_t>(id)));
    EXPECT_EQ(rows, tokenizer.encode(text));
  }
}

TEST_P(Llama2cCharacters, UnusedIdsMapToEndOfText) {
  const CharTokenizer tokenizer = CharTokenizer::from_text(GetParam(), "the test");
  const Llama2cVocabulary v = to_llama2c(tokenizer);
  ASSERT_EQ(v.pieces.size(), v.source_row.size());
  ASSERT_EQ(v.pieces.size(), v.scores.size());
  const auto unused = std::count(v.source_row.begin(), v.source_row.end(), tokenizer.end_of_text());
  EXPECT_EQ(static_cast<size_t>(unused) + tokenizer.characters().size(), v.pieces.size());
  for (const size_t id : {0, 1, 2}) EXPECT_EQ(v.source_row[id], tokenizer.end_of_text());
}

TEST_P(Llama2cCharacters, EncodesLikeLlama2c) {
  const TempDir folder;
  const Llama2cVocabulary v = to_llama2c(CharTokenizer::from_text(GetParam(), "the test"));
  write_llama2c_tokenizer(folder / "tokenizer.bin", v);
  const auto read = read_llama2c_tokenizer(folder / "tokenizer.bin", static_cast<int64_t>(v.pieces.size()));
  for (const std::string text : {GetParam(), "", "xyz é☃ \n", " "}) {
    EXPECT_EQ(read.encode(text), encode_like_llama2c(v.pieces, text));
    EXPECT_EQ(read.decode(read.encode(text)), text);
  }
}

constexpr const char* kNames[] = {"line", "letters", "unicode", "marks", "emoji", "space"};
INSTANTIATE_TEST_SUITE_P(Texts, Llama2cCharacters,
                         testing::Values("To be, or not\n", "abc", "中文é", "a <0x41> <unk>\n<s>\n", "é é😀 \xC2\xA0z",
                                         " "),
                         [](const auto& info) { return kNames[info.index]; });

// ---- SentencePiece vocabularies for llama2.c ----

TEST(Llama2cVocabulary, SentencePieceVocabularyKeepsItsRows) {
  const Llama2cVocabulary v = to_llama2c(tokenizer_of({"▁a", "▁", "a"}));
  EXPECT_EQ(v.pieces[259], " a");
  EXPECT_EQ(v.pieces[1], "\n<s>\n");
  EXPECT_EQ(v.scores[261], -2.0F);
  for (size_t i = 0; i < v.source_row.size(); ++i) EXPECT_EQ(v.source_row[i], static_cast<int32_t>(i));
}

TEST(Llama2cVocabulary, RejectsVocabulariesLlama2cCannotStore) {
  const auto refused = [](auto&& change, const std::string& part) {
    SentencePieceVocabulary v = vocabulary_of({"▁", "a"});
    change(v);
    EXPECT_ERROR(to_llama2c(SentencePieceTokenizer(v, "the test")), part);
  };
  using V = SentencePieceVocabulary;
  refused([](V& v) { v = vocabulary_of({"▁", "a"}, false); }, "256 byte tokens");
  refused([](V& v) { v.bos = 2; }, "1 as BOS");
  refused([](V& v) { v.eos = 1; }, "2 as EOS");
  refused([](V& v) { v.unk = -1; }, "0 as unknown");
  refused([](V& v) { v.add_bos = false; }, "adds BOS and a space before a text");
  refused([](V& v) { v.add_space_prefix = false; }, "adds BOS and a space before a text");
  refused([](V& v) { v.add_eos = true; }, "nothing after it");
  refused([](V& v) { add_piece(v, "<x>", 0, PieceType::UserDefined); }, "user-defined");
  refused([](V& v) { add_piece(v, std::string("a\0b", 3), 0); }, "zero bytes");
  refused([](V& v) { std::swap(v.pieces[3], v.pieces[4]); }, "token 3 to be the byte 0");
}

// ---- tokenizer.bin ----

TEST(Llama2cTokenizer, WhatDoesNotFitIsRefused) {
  const TempDir folder;
  const auto read = [&](const std::string& bytes, int64_t vocab_size = 0) {
    write_bytes(folder / "t.bin", bytes);
    return read_llama2c_tokenizer(folder / "t.bin", vocab_size);
  };
  const auto with_entry = [](const std::string& last) { return file_of({" "}) + last; };
  EXPECT_EQ(read(file_of({" ", "a"})).vocab_size(), 261);
  EXPECT_ERROR(read(file_of({" ", "a"}), 260), "9 bytes are left after the 260 tokens of the model");
  EXPECT_ERROR(read(file_of({" ", "a"}), 262), "261 tokens, but the model has 262");
  EXPECT_ERROR(read(with_entry("x")), "needs 4 bytes, but only 1 are left");
  EXPECT_ERROR(read(with_entry(raw(0.0F) + raw(int32_t{0}))), "piece 260 has length 0");
  EXPECT_ERROR(read(with_entry(raw(0.0F) + raw(int32_t{-1}))), "piece 260 has length -1");
  EXPECT_ERROR(read(with_entry(raw(0.0F) + raw(int32_t{0x7FFFFFFF}))), "more than the longest's 6");
  EXPECT_ERROR(read(file_of({" "}, 0x7FFFFFFF) + raw(0.0F) + raw(int32_t{1000})),
               "needs 1000 bytes, but only 0 are left");
  EXPECT_ERROR(read(file_of({" "}, 0x7FFFFFFF) + raw(0.0F) + raw(int32_t{1025})), "must be in [1, 1024]");
  EXPECT_ERROR(read(with_entry(entry("a", std::numeric_limits<float>::quiet_NaN()))), "the score of piece 260 is nan");
  EXPECT_ERROR(read(with_entry(entry("\xFF"))), "piece 260 (\"\\xFF\") is not UTF-8");
  EXPECT_ERROR(read(with_entry(entry(" "))), "occurs twice");
  EXPECT_ERROR(read(file_of({"a"})), "no piece is \"▁\"");
  EXPECT_ERROR(read(file_of({" "}, 5)), "more than the longest's 5");
  EXPECT_ERROR(read(file_of({" "}, 0)), "more than the longest's 0");
  EXPECT_ERROR(read(raw(int32_t{6}) + entry("<unk>") + entry("<s>") + entry("</s>") + entry("a")),
               "piece 3 is \"a\", but must be the byte 0");
  EXPECT_ERROR(read(raw(int32_t{6}) + entry("<unk>") + entry("<s>") + entry("</s>")), "fewer than the 259");
}

}  // namespace
}  // namespace folio::data
