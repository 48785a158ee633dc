#include "data/tokenizers/tokenizer_files.h"

#include <gtest/gtest.h>

#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/llama2c/llama2c_vocabulary.h"
#include "tests/core/support.h"
#include "tests/data/chat/byte_tokenizer.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using core::test::TempDir;
using core::test::write_bytes;

TEST(TokenizerFiles, DetectsFormatsByContent) {
  const TempDir folder;
  const SentencePieceTokenizer pieces = test::tokenizer_of({"▁a", "▁", "a"});
  const std::string text = "né中\"\\\x01\x7F";
  CharTokenizer characters = CharTokenizer::from_text(text, "the test");
  characters.set_chat_template("{{ messages }}");
  std::filesystem::create_directory(folder / "pieces");
  std::filesystem::create_directory(folder / "characters");
  pieces.write_hf(folder / "pieces");
  characters.write_hf(folder / "characters");
  test::write_gguf_file(folder / "pieces.x", pieces.to_gguf());
  test::write_gguf_file(folder / "characters.x", characters.to_gguf());
  write_llama2c_tokenizer(folder / "llama2c.x", to_llama2c(pieces));

  for (const char* name : {"pieces", "pieces/tokenizer.json", "pieces.x", "llama2c.x"}) {
    const auto read = load_tokenizer(folder / name, 262);
    EXPECT_EQ(read->kind(), "SentencePiece") << name;
    EXPECT_EQ(read->encode("aa a"), pieces.encode("aa a")) << name;
  }
  for (const char* name : {"characters", "characters/tokenizer.json", "characters.x"}) {
    const auto read = load_tokenizer(folder / name, 8);
    EXPECT_EQ(read->kind(), "character") << name;
    EXPECT_EQ(read->encode(text), characters.encode(text)) << name;
    EXPECT_EQ(read->chat_template(), characters.chat_template()) << name;
  }
  for (const char* name : {"pieces", "pieces.x", "llama2c.x", "characters"}) {
    EXPECT_ERROR(load_tokenizer(folder / name, 261), name);
    EXPECT_NO_THROW(static_cast<void>(load_tokenizer(folder / name, 0))) << name;
  }
}

TEST(TokenizerFiles, OtherFilesAreRejected) {
  const TempDir folder;
  const auto load = [&](const std::string& bytes) {
    write_bytes(folder / "file", bytes);
    return load_tokenizer(folder / "file", 0);
  };
  EXPECT_ERROR(load_tokenizer(folder / "none", 0), "none");
  EXPECT_ERROR(load_tokenizer(folder.path(), 0), "tokenizer.json");
  EXPECT_ERROR(load(""), "file");
  EXPECT_ERROR(load("hello"), "not a supported tokenizer");
  EXPECT_ERROR(load("\n \t"), "not a supported tokenizer");
  EXPECT_ERROR(load("GGUFxxxx"), "GGUF version");
  EXPECT_ERROR(load("{"), "not valid JSON");
  EXPECT_ERROR(load(std::string(3, '\0')), "not a supported tokenizer");
  EXPECT_ERROR(load(std::string(64, '\0')), "has length 0");
}

TEST(TokenizerFiles, RejectsTokenizersTheFormatCannotStore) {
  const test::ByteTokenizer bytes;
  EXPECT_ERROR(bytes.to_gguf(), "a byte tokenizer cannot be written to a GGUF");
  EXPECT_ERROR(bytes.write_hf("here"), "a byte tokenizer cannot be written as tokenizer.json");
  EXPECT_ERROR(to_llama2c(bytes), "a byte tokenizer");
  EXPECT_TRUE(bytes.ends_text(257));
  EXPECT_EQ(bytes.decode({'x', 'x'}), "xx");
}

}  // namespace
}  // namespace folio::data
