#include "data/tokenizers/sentencepiece.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "core/utf8.h"
#include "tests/core/support.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using test::add_piece;
using test::id_of;
using test::pieces_of;
using test::tokenizer_of;
using test::vocabulary_of;
using Strings = std::vector<std::string>;

// Encodes by SentencePiece's definition: repeatedly merges the pair whose piece has the best score, leftmost first.
std::vector<int32_t> encode_by_definition(const SentencePieceVocabulary& v, const std::string& text) {
  std::map<std::string, int32_t> ids;
  std::map<uint8_t, int32_t> byte_ids;
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (v.types[i] == PieceType::Normal) ids[v.pieces[i]] = static_cast<int32_t>(i);
    if (v.types[i] == PieceType::Byte) byte_ids[*parse_byte_piece(v.pieces[i])] = static_cast<int32_t>(i);
  }
  const std::string marked = text.empty() ? "" : spaces_to_marks((v.add_space_prefix ? " " : "") + text);
  Strings symbols;
  for (size_t at = 0; at < marked.size(); at += symbols.back().size()) {
    symbols.push_back(marked.substr(at, core::decode_utf8(marked, at).length));
  }
  for (;;) {
    size_t best = symbols.size();
    float best_score = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto joined = ids.find(symbols[i] + symbols[i + 1]);
      const bool joins = joined != ids.end() && ids.contains(symbols[i]) && ids.contains(symbols[i + 1]);
      if (joins && v.scores[static_cast<size_t>(joined->second)] > best_score) {
        best = i;
        best_score = v.scores[static_cast<size_t>(joined->second)];
      }
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> tokens;
  for (const std::string& symbol : symbols) {
    if (ids.contains(symbol)) {
      tokens.push_back(ids[symbol]);
    } else if (std::all_of(symbol.begin(), symbol.end(),
                           [&](char c) { return byte_ids.contains(static_cast<uint8_t>(c)); })) {
      for (const char c : symbol) tokens.push_back(byte_ids[static_cast<uint8_t>(c)]);
    } else if (tokens.empty() || tokens.back() != v.unk) {
      tokens.push_back(v.unk);
    }
  }
  return tokens;
}

// Returns a vocabulary of random pieces over a small alphabet, so that merges overlap. Many scores are equal.
SentencePieceVocabulary random_vocabulary(std::mt19937& random, const Strings& alphabet, bool spaces_inside) {
  SentencePieceVocabulary v = vocabulary_of({"▁"}, random() % 4 != 0);
  for (int i = 0; i < 60; ++i) {
    std::string piece = spaces_to_marks(test::random_text(random, alphabet, 5));
    if (!spaces_inside && piece.find("▁", 1) != std::string::npos) continue;
    if (piece.empty() || std::find(v.pieces.begin(), v.pieces.end(), piece) != v.pieces.end()) continue;
    add_piece(v, piece, -static_cast<float>(random() % 12));
  }
  // In a quarter of the vocabularies with byte tokens, one byte of 😀 has no token.
  if (v.types[3] == PieceType::Byte && random() % 4 == 0) v.types[3 + 0x98] = PieceType::Unused;
  v.add_space_prefix = random() % 3 != 0;
  return v;
}

TEST(SentencePiece, EncodesLikeTheDefinition) {
  std::mt19937 random(1);
  const Strings alphabet = {"a", "b", "ab", "c", " ", "  ", "é", "中", "😀", "\n"};
  Strings with_broken = alphabet;
  with_broken.insert(with_broken.end(), {"\xFF", "\xE4\xB8"});
  for (int round = 0; round < 300; ++round) {
    const SentencePieceVocabulary v = random_vocabulary(random, alphabet, round % 2 == 0);
    const SentencePieceTokenizer tokenizer(v, "the test");
    for (int i = 0; i < 20; ++i) {
      const std::string text = test::random_text(random, with_broken, 30);
      ASSERT_EQ(tokenizer.encode(text), encode_by_definition(v, text)) << core::printable(text);
    }
  }
}

TEST(SentencePiece, EncodeAddsALeadingSpaceThatDecodeRemoves) {
  const SentencePieceTokenizer tokenizer = tokenizer_of({"▁a", "▁", "a"});
  EXPECT_EQ(pieces_of(tokenizer, "a a"), (Strings{"▁a", "▁a"}));
  EXPECT_EQ(pieces_of(tokenizer, " a"), (Strings{"▁", "▁a"}));
  EXPECT_EQ(pieces_of(tokenizer, ""), Strings{});
  for (const std::string text : {"", "a", " ", " a", "  a  ", "aa "}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.token_bytes(id_of(tokenizer, "▁a")), " a");  // only a text's first space is removed

  SentencePieceVocabulary v = vocabulary_of({"▁a", "▁", "a"});
  v.add_space_prefix = false;
  const SentencePieceTokenizer bare(v, "the test");
  EXPECT_EQ(pieces_of(bare, "a a"), (Strings{"a", "▁a"}));
  EXPECT_EQ(bare.decode(bare.encode(" a")), " a");
}

TEST(SentencePiece, UnknownCharactersNeedByteFallbackOrAnUnknownToken) {
  SentencePieceVocabulary v = vocabulary_of({"▁", "a"}, false);
  EXPECT_EQ(SentencePieceTokenizer(v, "the test").token_bytes(0), "");
  v.unk = -1;
  EXPECT_ERROR(SentencePieceTokenizer(v, "the test").encode("aé"), "\"é\" is not in the vocabulary");
}

TEST(SentencePiece, SpecialTokensAreNeitherParsedNorMerged) {
  SentencePieceVocabulary v = vocabulary_of({"▁", "<", "s", ">", "<s", "unk>", "0", "x", "A"});
  v.scores[1] = 100.0F;
  add_piece(v, "<s>x", 200.0F, PieceType::Unused);
  const SentencePieceTokenizer tokenizer(v, "the test");
  EXPECT_EQ(pieces_of(tokenizer, "<s>x"), (Strings{"▁", "<s", ">", "x"}));
  EXPECT_EQ(pieces_of(tokenizer, "<0x0A>"), (Strings{"▁", "<", "0", "x", "0", "A", ">"}));
  for (const char* piece : {"<s>", "</s>", "<unk>", "<s>x"})
    EXPECT_EQ(tokenizer.token_bytes(id_of(tokenizer, piece)), "");
}

TEST(SentencePiece, EqualLettersAvoidQuadraticTime) {
  const SentencePieceTokenizer tokenizer = tokenizer_of({"aa", "aaaa", "▁", "a"});
  // Must be fast: encode_by_definition() would need 750,000 passes over the text, one per merge.
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, 'a')).size(), 1U + 250'000U);
}

TEST(SentencePiece, RejectsInconsistentVocabularies) {
  const auto refused = [](auto&& change, const std::string& part) {
    SentencePieceVocabulary v = vocabulary_of({"▁", "a"});
    change(v);
    EXPECT_ERROR(SentencePieceTokenizer(v, "here"), part);
  };
  using V = SentencePieceVocabulary;
  refused([](V& v) { v = {}; }, "here: 0 pieces are not a valid vocabulary");
  refused([](V& v) { v.scores.pop_back(); }, "here: 261 pieces, but 260 scores");
  refused([](V& v) { v.types.pop_back(); }, "260 types");
  refused([](V& v) { v.bos = -1; }, "the BOS token is -1, but IDs are 0 to 260");
  refused([](V& v) { v.eos = 261; }, "the EOS token is 261");
  refused([](V& v) { v.unk = -2; }, "the unknown token is -2");
  refused([](V& v) { v.pieces[260] = ""; }, "piece 260 has 0 bytes");
  refused([](V& v) { v.pieces[260].assign(1025, 'a'); }, "piece 260 has 1025 bytes");
  refused([](V& v) { v.pieces[260] = "\xC3"; }, "piece 260 (\"\\xC3\") is not UTF-8");
  refused([](V& v) { v.pieces[260] = "</s>"; }, "piece 260 (\"</s>\") occurs twice");
  refused([](V& v) { v.scores[7] = std::numeric_limits<float>::quiet_NaN(); }, "the score of piece 7 is nan");
  refused([](V& v) { v.scores[7] = std::numeric_limits<float>::infinity(); }, "the score of piece 7 is inf");
  refused([](V& v) { v.types[7] = static_cast<PieceType>(0); }, "piece 7 has the unknown type 0");
  refused([](V& v) { v.types[7] = static_cast<PieceType>(7); }, "piece 7 has the unknown type 7");
  refused([](V& v) { v.types[260] = PieceType::Byte; }, "byte piece 260 is \"a\"");
  refused([](V& v) { v.pieces[259] = "b"; }, "no piece is \"▁\"");
}

TEST(SentencePieceText, BytePiecesUseTwoUppercaseDigits) {
  for (int b = 0; b < 256; ++b) EXPECT_EQ(parse_byte_piece(byte_piece(static_cast<uint8_t>(b))), b);
  EXPECT_EQ(byte_piece(0xAF), "<0xAF>");
  for (const char* text : {"", "<0xaf>", "<0xA>", "<0xA", "<0xAF> ", "<0XAF>", "<0xGF>", "0xAF", "<0x-1>"}) {
    EXPECT_FALSE(parse_byte_piece(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace folio::data
