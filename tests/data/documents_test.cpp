#include "data/documents.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "data/document_tokens.h"
#include "tests/core/support.h"
#include "tests/data/support.h"

namespace folio::data {
namespace {

using core::test::TempDir;
using core::test::write_bytes;

TEST(Documents, CountTheBytesReadFromAllFiles) {
  const TempDir dir;
  write_bytes(dir / "a.txt", "one<|endoftext|>two");
  write_bytes(dir / "b.jsonl", "{\"text\": \"three\"}\n");
  const Documents documents({(dir / "a.txt").string(), (dir / "b.jsonl").string()});
  std::vector<uint64_t> n_read;
  documents.read([&](const Documents::Piece& piece) { n_read.push_back(piece.n_read); });
  EXPECT_EQ(n_read, (std::vector<uint64_t>{19, 19, 19, 19, 37}));
  EXPECT_EQ(documents.n_bytes(), 37U);
}

// GGUF does not store the setting in which these tokenizers differ.
TEST(DocumentTokens, EachTokenizerHasItsOwnFile) {
  const TempDir dir;
  write_bytes(dir / "a.txt", " a");
  const Documents documents({(dir / "a.txt").string()});
  SentencePieceVocabulary v = test::vocabulary_of({"▁", "a"});
  for (const SpacePrefix prefix : {SpacePrefix::Normalizer, SpacePrefix::Always}) {
    v.space_prefix = prefix;
    const SentencePieceTokenizer tokenizer(v, "the test");
    const DocumentTokens tokens(documents, summarize(documents), tokenizer, {.folder = dir / "cache", .in_memory = 0});
    EXPECT_EQ(tokens.view().to_vector(), tokenizer.encode(" a"));
  }
}

}  // namespace
}  // namespace folio::data
