// BPE with scores and byte fallback, as trained by SentencePiece for Llama (Kudo & Richardson 2018, Sennrich et al.
// 2016). Each character is a symbol. The adjacent pair that forms the piece with the best score is merged, leftmost
// first, until no pair forms a piece. Characters without a piece are encoded as bytes.
#pragma once

#include <array>

#include "data/tokenizers/text_index.h"
#include "data/tokenizers/vocabulary_tokenizer.h"

namespace folio::data {

namespace hf {
struct TokenizerFiles;
}

/// Specifies where add_space_prefix adds a space. The step of tokenizer.json that adds it is in parentheses.
enum class SpacePrefix : uint8_t {
  Normalizer,  ///< before each text between added tokens (Prepend in tokenizer.json; also SentencePiece and GGUF)
  Always,      ///< as Normalizer, except before a text that begins with a space (Metaspace)
  First,       ///< before the whole input, unless it begins with a space or an added token (Metaspace)
};

/// A vocabulary as spelled in files: normal pieces have U+2581 "▁" for a space, user-defined pieces are plain text.
struct SentencePieceVocabulary : Vocabulary {
  std::vector<float> scores;
  bool add_space_prefix = true;
  SpacePrefix space_prefix = SpacePrefix::Normalizer;  ///< GGUF files do not store it and imply this default
  bool split_words = false;                            ///< text is split before each space, as by Metaspace

  /// Sets SentencePiece's default IDs.
  SentencePieceVocabulary() {
    unk = 0;
    bos = 1;
    eos = 2;
    add_bos = true;
  }
  bool operator==(const SentencePieceVocabulary&) const = default;
};

/// Throws core::Error, prefixed with `where`, if pieces, types and scores differ in number, an ID is out of range, a
/// score is not finite, a byte piece is not "<0xNN>", or a piece is empty, longer than 1024 bytes, not UTF-8 or
/// repeated (llama.cpp aborts on repeated pieces).
void validate(const SentencePieceVocabulary& vocabulary, const std::string& where);

/// Returns true if merges can produce the piece `id`: it is normal or user-defined, as in llama.cpp and in Hugging
/// Face's tokenizers, contains no space, and has no flag TokenFlags::apart.
[[nodiscard]] bool joins(const SentencePieceVocabulary& vocabulary, size_t id);

class SentencePieceTokenizer final : public VocabularyTokenizer<SentencePieceVocabulary> {
 public:
  /// Checks and indexes a vocabulary. Throws core::Error if it is invalid, or has no piece "▁".
  SentencePieceTokenizer(SentencePieceVocabulary vocabulary, const std::string& where);
  SentencePieceTokenizer(SentencePieceTokenizer&&) = default;  // not copyable: ids_ refers to bytes_

  /// Reads the "llama" vocabulary of a GGUF file, with llama.cpp's defaults for missing keys.
  [[nodiscard]] static SentencePieceTokenizer from_gguf(const core::GgufFile& file);

  /// Reads tokenizer.json and tokenizer_config.json: BPE with the normalizer and decoder of Llama or of Metaspace. The
  /// merges must include every split of each piece into two pieces, grouped by piece. Throws core::Error otherwise.
  [[nodiscard]] static SentencePieceTokenizer from_hf(const hf::TokenizerFiles& source);

  /// Returns the tokens of a prompt. U+2581 counts as a space, and a byte that is not UTF-8 as a symbol. User-defined
  /// tokens are separated first (AddedTokens); with add_space_prefix, text between them gets a leading space. Throws
  /// core::Error for a character without a piece if the vocabulary has neither bytes nor an unknown token.
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const PromptPiece> pieces) const override;

  /// Returns the text of the tokens, without the leading spaces that encode() added.
  [[nodiscard]] std::string decode(const std::vector<int32_t>& tokens) const override;
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] std::string kind() const override { return "SentencePiece"; }
  [[nodiscard]] HfFiles to_hf() const override;

  /// Returns the ID of the piece with this text, spelled with spaces instead of U+2581, or -1 if there is none.
  [[nodiscard]] int32_t piece_of(std::string_view text) const { return ids_.find(text); }

 private:
  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;
  void encode_stretch(std::string_view text, bool is_first, std::vector<int32_t>& ids) const;
  void append_without_piece(std::string_view symbol, bool after_unknown, std::vector<int32_t>& ids) const;

  std::vector<std::string> bytes_;       ///< decoded text of each token
  TextIndex ids_;                        ///< index of the pieces that merges can produce, by their text in `bytes_`
  std::array<int32_t, 256> byte_ids_{};  ///< token of each byte, or -1
  size_t longest_ = 0;                   ///< bytes of the longest piece in ids_
  bool cut_words_ = true;  ///< true if no piece has a space after another character: words are encoded separately
};

}  // namespace folio::data
