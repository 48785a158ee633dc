#include "data/tokenizers/bpe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "data/chat/chat_template.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/unicode.h"
#include "tests/core/support.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

int32_t piece_id(const BpeVocabulary& v, std::string_view piece) {
  const auto found = std::find(v.pieces.begin(), v.pieces.end(), piece);
  return found == v.pieces.end() ? -1 : static_cast<int32_t>(found - v.pieces.begin());
}

void add(BpeVocabulary& v, std::string piece, PieceType type = PieceType::Normal) {
  v.pieces.push_back(std::move(piece));
  v.types.push_back(type);
}

void add_merge(BpeVocabulary& v, const std::string& left, const std::string& right) {
  if (piece_id(v, left + right) < 0) add(v, left + right);
  v.merges.push_back({piece_id(v, left), piece_id(v, right), piece_id(v, left + right)});
}

// Returns a vocabulary of two special tokens, the 256 bytes, and the results of the merges.
BpeVocabulary bpe_of(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeVocabulary v;
  add(v, "<bos>", PieceType::Control);
  add(v, "<eos>", PieceType::Control);
  v.bos = 0;
  v.eos = 1;
  for (int b = 0; b < 256; ++b) v.pieces.emplace_back(1, static_cast<char>(b)), v.types.push_back(PieceType::Normal);
  for (const auto& [left, right] : merges) add_merge(v, left, right);
  return v;
}

Strings pieces_of(const BpeTokenizer& tokenizer, std::string_view text) {
  Strings pieces;
  for (const int32_t id : tokenizer.encode(text)) pieces.push_back(tokenizer.token_bytes(id));
  return pieces;
}

// Combining marks of two classes alternate, so sorting them by swapping neighbors would need 4.5 · 10^10 swaps.
TEST(Nfc, SortsLongRunsOfMarksInLinearithmicTime) {
  constexpr size_t kMarks = 600'000;
  std::string text = "q";
  std::string above;
  std::string below;
  for (size_t i = 0; i < kMarks; ++i) {
    const std::string_view mark = i % 2 == 0 ? "\u0302" : "\u0323";  // combining classes 230, 220
    text += mark;
    (i % 2 == 0 ? above : below) += mark;
  }
  EXPECT_TRUE(to_nfc(text) == "q" + below + above);
}

TEST(PreTokenizer, ErrorsListKnownPreTokenizers) {
  EXPECT_EQ(pre_tokenizer_named("smollm", "here").kind, PreTokenizer::Digits);
  EXPECT_TRUE(pre_tokenizer_named("llama-bpe", "here").ignore_merges);
  EXPECT_FALSE(pre_tokenizer_named("smaug-bpe", "here").ignore_merges);
  EXPECT_ERROR(pre_tokenizer_named("default", "here"),
               "here: the pre-tokenizer \"default\" is not supported; supported");
  EXPECT_ERROR(pre_tokenizer_named("x", "here"), "gpt-2");
  EXPECT_EQ(name_of(PreTokenizer::Gpt2, true, false), nullptr);
  EXPECT_EQ(name_of(PreTokenizer::Gpt2, false, true)->name, "olmo");
  EXPECT_EQ(name_of(PreTokenizer::Llama3, false, false)->name, "smaug-bpe");
}

TEST(PreTokenizer, BordersChangeNoWord) {
  const auto words = [](PreTokenizer kind, std::string_view text, Strings all = {}) {
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = word_end(kind, text, at);
      all.emplace_back(text.substr(at, end - at));
    }
    return all;
  };
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::string text = test::random_text(
        random, {"a", "B", "é", "\u0301", "中", "1", " ", "\n", "\r\n", "\t", "\u00a0", "/", "'s"}, 20);
    for (const PreTokenizer kind : {PreTokenizer::Gpt2, PreTokenizer::Digits, PreTokenizer::Llama3, PreTokenizer::Qwen2,
                                    PreTokenizer::O200k, PreTokenizer::Tekken}) {
      for (size_t from = 1; from <= text.size(); ++from) {
        const std::string_view view = text;
        const size_t border = word_border(view, from);
        ASSERT_GE(border, from);
        ASSERT_EQ(words(kind, view.substr(border), words(kind, view.substr(0, border))), words(kind, view))
            << core::printable(text);
      }
    }
  }
  EXPECT_EQ(word_border("Ab.\n\nCd e", 2), 7U);
}

TEST(Bpe, CachedWordsGiveTheSameTokens) {
  std::mt19937 random(19);
  const BpeTokenizer tokenizer(bpe_of({{"a", "b"}, {" ", "ab"}, {"ab", "a"}, {"b", "b"}}), "the test");
  for (int round = 0; round < 50; ++round) {  // more words than the word cache holds
    Ids expected;
    std::string text;
    for (int i = 0; i < 300; ++i) {
      const std::string word = fmt::format(" a{}", test::random_text(random, {"a", "b"}, 9));
      text += word;
      const Ids ids = tokenizer.encode(word);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    ASSERT_EQ(tokenizer.encode(text), expected);
  }
}

TEST(Bpe, IgnoreMergesEncodesWholeWords) {
  BpeVocabulary v = bpe_of({{"a", "b"}});
  add(v, "abc");
  EXPECT_EQ(pieces_of(BpeTokenizer(v, "the test"), "abc"), (Strings{"ab", "c"}));
  v.ignore_merges = true;
  EXPECT_EQ(pieces_of(BpeTokenizer(v, "the test"), "abc"), (Strings{"abc"}));
}

TEST(Bpe, DropsBytesWithoutAToken) {
  BpeVocabulary v = bpe_of({{"a", "b"}});
  v.types[2 + 0xF1] = PieceType::Unused;
  v.pieces[2 + 0xF1] = "<unused>";
  const BpeTokenizer tokenizer(v, "the test");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xF1\xF2")), "a\xF2");
}

TEST(Bpe, ParsesUserDefinedButNotSpecialTokens) {
  BpeVocabulary v = bpe_of({});
  add(v, "<tool>", PieceType::UserDefined);
  add(v, "<|im_end|>", PieceType::Control);
  add(v, "<|other|>", PieceType::Control);
  const BpeTokenizer tokenizer(v, "the test");
  const int32_t tool = piece_id(v, "<tool>");
  EXPECT_EQ(tokenizer.encode("<tool>"), Ids{tool});
  EXPECT_EQ(tokenizer.token_bytes(tool), "<tool>");
  EXPECT_EQ(tokenizer.encode("<bos>").size(), 5U);
  const std::vector<PromptPiece> pieces = {{.text = "<bos><tool>", .parse_special = true}};
  EXPECT_EQ(tokenizer.encode_pieces(pieces), (Ids{0, tool}));
  EXPECT_EQ(tokenizer.token_bytes(0), "");
  EXPECT_EQ(tokenizer.begin_of_text(), 0);
  EXPECT_EQ(tokenizer.default_prompt(), Ids{0});
  EXPECT_TRUE(tokenizer.ends_text(0) && tokenizer.ends_text(1) && tokenizer.ends_text(tool + 1));
  EXPECT_FALSE(tokenizer.ends_text(tool) || tokenizer.ends_text(tool + 2) || tokenizer.ends_text(-1));
  EXPECT_ERROR(tokenizer.token_bytes(tool + 3), "outside the vocabulary");
}

// In gpt-oss' vocabulary, <|end|> ends the analysis, and an answer follows.
TEST(Bpe, EndOfAnAnalysisDoesNotEndTheText) {
  Vocabulary v;
  v.pieces = {"<|return|>", "<|call|>", "<|end|>"};
  v.types.assign(3, PieceType::Control);
  v.eos = 0;
  EXPECT_EQ(ends_of_text(v), (std::vector{true, true, false}));
  v.pieces[1] = "<|user|>";
  EXPECT_EQ(ends_of_text(v), (std::vector{true, true, true}));
}

TEST(Bpe, WithoutBosTheBosTokenOfChatTemplatesIsEmpty) {
  BpeVocabulary v = bpe_of({});
  const ChatTemplate chat("[{{ bos_token }}]", "the test");
  const std::vector<ChatMessage> messages{{.role = ChatRole::User, .content = "a"}};
  EXPECT_EQ(render_chat(BpeTokenizer(v, "the test"), chat, messages, {})[0].text, "[<bos>]");
  v.bos = -1;
  EXPECT_EQ(render_chat(BpeTokenizer(v, "the test"), chat, messages, {})[0].text, "[]");
}

TEST(Bpe, GgufHasNoNameForSomePreTokenizers) {
  BpeVocabulary v = bpe_of({});
  v.pre_tokenizer = PreTokenizer::O200k;
  v.ignore_merges = true;  // changes no tokens as long as the merges produce all pieces
  EXPECT_EQ(test::read_gguf(BpeTokenizer(v, "the test").to_gguf())->encode("ab"),
            BpeTokenizer(v, "the test").encode("ab"));
  add(v, "ab");
  EXPECT_ERROR(BpeTokenizer(v, "the test").to_gguf(), "GGUF has no name for this pre-tokenizer");
}

TEST(Bpe, BytesMayBeBosAndEosInFiles) {
  const core::test::TempDir folder;
  BpeVocabulary v = bpe_of({});
  v.eos = 2 + 0xC0;
  v.bos = 2 + ' ';
  v.add_bos = true;
  BpeTokenizer(v, "the test").write_hf(folder.path());
  EXPECT_EQ(dynamic_cast<const BpeTokenizer&>(*load_tokenizer(folder.path(), 0)).vocabulary(), v);
}

TEST(Bpe, RejectsInvalidVocabularies) {
  const auto refused = [](void (*change)(BpeVocabulary&), const char* message) {
    BpeVocabulary v = bpe_of({{"a", "b"}});
    change(v);
    EXPECT_ERROR(BpeTokenizer(v, "here"), fmt::format("here: {}", message));
  };
  using V = BpeVocabulary;
  refused([](V& v) { v.types.pop_back(); }, "259 pieces, but 258 types");
  refused([](V& v) { v.eos = 259; }, "the EOS token is 259");
  refused([](V& v) { v.eos = -1; }, "the EOS token is -1");
  refused([](V& v) { v.eot = -2; }, "the end-of-turn token is -2");
  refused([](V& v) { v.bos = -1, v.add_bos = true; }, "a BOS token must be added");
  refused([](V& v) { v.pieces[2] = ""; }, "token 2 is empty");
  refused([](V& v) { v.pieces[2].assign(1, 'a'); }, "token 99 (\"a\") occurs twice");
  refused([](V& v) { v.pieces[1] = "<bos>"; }, "token 1 (\"<bos>\") occurs twice");
  refused([](V& v) { v.pieces[1] = "\u0120"; }, "token 1 (\"\u0120\") occurs twice");  // files write " " as U+0120
  refused([](V& v) { v.pieces[1].assign(1, '\xFF'); }, "token 1 (\"\\xFF\") is not UTF-8");
  refused([](V& v) { v.merges.push_back(v.merges[0]); }, "merge 1 occurs twice");
  refused([](V& v) { v.merges[0].joined = 259; }, "a merge has token 259");
  refused([](V& v) { v.merges[0].left = -1; }, "a merge has token -1");
  refused([](V& v) { v.merges[0].left = 0; }, "a merge has token 0");
  refused([](V& v) { v.merges[0].right = 99; }, "merging tokens 99 and 99 does not make token 258");
}

TEST(Bpe, RejectsInvalidGgufMetadata) {
  const auto read = [&](const std::string& key, const std::optional<core::GgufValue>& value) {
    return test::read_changed_gguf(BpeTokenizer(bpe_of({{"a", "b"}}), "the test"), key, value);
  };
  EXPECT_ERROR(read("pre", {}), "tokenizer.ggml.pre is missing");
  EXPECT_ERROR(read("pre", "gpt-5"), "\"gpt-5\" is not supported");
  EXPECT_ERROR(read("merges", {}), "tokenizer.ggml.merges is missing");
  for (const char* merge : {"ab", "a  b", "a c", "zz b", "", " "}) {
    EXPECT_ERROR(read("merges", core::GgufArray{Strings{merge}}), "does not join two tokens");
  }
  EXPECT_ERROR(read("token_type", core::GgufArray{Ids{1}}), "but 1 types");
  EXPECT_ERROR(read("eos_token_id", {}), "the EOS token is -1");
  EXPECT_EQ(read("add_bos_token", {})->prefix_tokens(), Ids());
  BpeVocabulary v = bpe_of({});
  v.pre_tokenizer = PreTokenizer::Tekken;
  EXPECT_EQ(test::read_changed_gguf(BpeTokenizer(v, "the test"), "add_bos_token", {})->prefix_tokens(), Ids{0});
}

}  // namespace
}  // namespace folio::data
