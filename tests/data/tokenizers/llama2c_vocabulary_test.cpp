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
using test::vocabulary_of;

std::string entry(const std::string& piece, float score = 0) {
  return raw(score) + raw(static_cast<int32_t>(piece.size())) + piece;
}

// Returns a tokenizer.bin with the 259 entries that every such file has, followed by `pieces`. Its header gives
// `longest` as the length of the longest piece in bytes.
std::string file_of(const std::vector<std::string>& pieces, int32_t longest = 6) {
  std::string bytes = raw(longest) + entry("<unk>") + entry("\n<s>\n") + entry("\n</s>\n");
  for (int b = 0; b < 256; ++b) bytes += entry(byte_piece(static_cast<uint8_t>(b)));
  for (size_t i = 0; i < pieces.size(); ++i) bytes += entry(pieces[i], -static_cast<float>(i));
  return bytes;
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

TEST(Llama2cTokenizer, RejectsDamagedFiles) {
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
