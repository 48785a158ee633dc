// Helpers for the tokenizer tests: small SentencePiece vocabularies, and files made from them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/file_io.h"
#include "core/formats/gguf.h"
#include "data/tokenizers/sentencepiece.h"
#include "data/tokenizers/sentencepiece_text.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/core/support.h"

namespace folio::data::test {

inline void add_piece(SentencePieceVocabulary& v, std::string piece, float score, PieceType type = PieceType::Normal) {
  v.pieces.push_back(std::move(piece));
  v.scores.push_back(score);
  v.types.push_back(type);
}

/// Returns a vocabulary of <unk>, <s>, </s>, the 256 bytes if `with_bytes`, and `pieces` with scores 0, -1, -2, …
inline SentencePieceVocabulary vocabulary_of(const std::vector<std::string>& pieces, bool with_bytes = true) {
  SentencePieceVocabulary v;
  add_piece(v, "<unk>", 0, PieceType::Unknown);
  add_piece(v, "<s>", 0, PieceType::Control);
  add_piece(v, "</s>", 0, PieceType::Control);
  for (int b = 0; b < 256 && with_bytes; ++b) add_piece(v, byte_piece(static_cast<uint8_t>(b)), 0, PieceType::Byte);
  float score = 0;
  for (const std::string& piece : pieces) add_piece(v, piece, score--);
  return v;
}

inline SentencePieceTokenizer tokenizer_of(const std::vector<std::string>& pieces, bool with_bytes = true) {
  return {vocabulary_of(pieces, with_bytes), "the test"};
}

inline int32_t id_of(const SentencePieceTokenizer& tokenizer, const std::string& piece) {
  const auto& pieces = tokenizer.vocabulary().pieces;
  const auto found = std::find(pieces.begin(), pieces.end(), piece);
  return found == pieces.end() ? -1 : static_cast<int32_t>(found - pieces.begin());
}

/// Encodes `text` and returns the pieces of its tokens, with "▁" for spaces.
inline std::vector<std::string> pieces_of(const SentencePieceTokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const int32_t id : tokenizer.encode(text)) {
    pieces.push_back(tokenizer.vocabulary().pieces[static_cast<size_t>(id)]);
  }
  return pieces;
}

inline std::string random_text(std::mt19937& random, const std::vector<std::string>& alphabet, size_t max_length) {
  std::string text;
  for (size_t n = random() % (max_length + 1); n > 0; --n) text += alphabet[random() % alphabet.size()];
  return text;
}

inline void write_gguf_file(const std::filesystem::path& path, const core::GgufMetadata& metadata) {
  core::write_file_atomically(path, [&](core::OutputFile& out) { core::write_gguf(out, metadata, {}); });
}

/// Writes a GGUF with this metadata. Returns the tokenizer that is read from it.
inline std::unique_ptr<Tokenizer> read_gguf(const core::GgufMetadata& metadata) {
  const core::test::TempDir folder;
  write_gguf_file(folder / "model.gguf", metadata);
  return load_tokenizer(folder / "model.gguf", 0);
}

/// Reads a tokenizer from a GGUF in which "tokenizer.ggml." + `key` has another value, or is missing if there is none.
inline std::unique_ptr<Tokenizer> read_changed_gguf(const Tokenizer& tokenizer, const std::string& key,
                                                    const std::optional<core::GgufValue>& value) {
  core::GgufMetadata metadata = tokenizer.to_gguf();
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == "tokenizer.ggml." + key; });
  if (value) metadata.emplace_back("tokenizer.ggml." + key, *value);
  return read_gguf(metadata);
}

}  // namespace folio::data::test
