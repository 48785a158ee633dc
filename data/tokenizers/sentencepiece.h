// BPE with scores and byte fallback, as trained by SentencePiece for Llama (Kudo & Richardson 2018, Sennrich et al.
// 2016). Each character is a symbol. The adjacent pair that forms the piece with the best score is merged, leftmost
// first, until no pair forms a piece. Characters without a piece are encoded as bytes.
#pragma once

#include <array>

#include "data/tokenizers/text_index.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data {

namespace hf {
struct Source;
}

/// Where add_space_prefix adds a space. In `tokenizers` a normalizer or a pre-tokenizer does so.
enum class SpacePrefix : uint8_t {
  Normalizer,  ///< before each text between special and user-defined tokens (Prepend; SentencePiece, GGUF)
  Always,      ///< before each such text that does not begin with a space (Metaspace)
  First,       ///< once, before a text that begins with neither a space nor a token (Metaspace)
};

/// A vocabulary as spelled in files: normal pieces have U+2581 "▁" for a space; user-defined pieces are plain text.
struct SentencePieceVocabulary : Vocabulary {
  std::vector<float> scores;
  bool add_space_prefix = true;
  SpacePrefix space_prefix = SpacePrefix::Normalizer;  ///< GGUF has no key for it
  bool split_words = false;  ///< no token has a space after another character, not even after a space (Metaspace)

  /// Sets SentencePiece's default IDs.
  SentencePieceVocabulary() {
    unk = 0;
    bos = 1;
    eos = 2;
    add_bos = true;
  }
  bool operator==(const SentencePieceVocabulary&) const = default;
};

/// Throws core::Error, prefixed with `where`, if lists differ in length, an ID is out of range, a score is not finite,
/// a byte piece is not "<0xNN>", or a piece is empty, longer than 1024 bytes, not UTF-8 or repeated (llama.cpp aborts
/// on repeated ones).
void validate(const SentencePieceVocabulary& vocabulary, const std::string& where);

/// Returns true if merges may produce this piece. As in llama.cpp and `tokenizers`, it may be user-defined.
[[nodiscard]] bool joins(const SentencePieceVocabulary& vocabulary, size_t id);

class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Throws core::Error if the vocabulary is invalid, or no piece is "▁".
  SentencePieceTokenizer(SentencePieceVocabulary vocabulary, const std::string& where);
  SentencePieceTokenizer(SentencePieceTokenizer&&) = default;  // not copyable: ids_ refers to the texts

  /// Reads the "llama" vocabulary of a GGUF file, with llama.cpp's defaults for missing keys.
  [[nodiscard]] static SentencePieceTokenizer from_gguf(const core::GgufFile& file);

  /// Reads tokenizer.json and tokenizer_config.json: BPE whose merges are all splits of each piece, one piece after the
  /// other, with Llama's normalizer or Metaspace, and its decoder. Throws core::Error that names what is not supported.
  [[nodiscard]] static SentencePieceTokenizer from_hf(const hf::Source& source);

  /// Encodes any bytes: U+2581 counts as a space, and a byte that is not UTF-8 as a symbol. Separates user-defined
  /// pieces first (AddedTokens); with add_space_prefix, text between them gets a leading space. Throws core::Error for
  /// a character that has neither a piece nor bytes if there is no unknown token.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const TextPiece> pieces) const override;
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override;

  /// Returns the text of the tokens, without the leading spaces that encode() added.
  [[nodiscard]] std::string decode(const std::vector<int32_t>& tokens) const override;
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;

  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return vocabulary_.eos; }
  [[nodiscard]] int32_t begin_of_text() const override { return vocabulary_.bos; }
  [[nodiscard]] bool ends_text(int32_t id) const override {
    return is_end(id) || (id >= 0 && id < vocab_size() && ends_text_[static_cast<size_t>(id)]);
  }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {vocabulary_.bos}; }
  [[nodiscard]] std::string kind() const override { return "SentencePiece"; }
  void write_hf(const std::filesystem::path& directory) const override;

  [[nodiscard]] const SentencePieceVocabulary& vocabulary() const { return vocabulary_; }

  /// Returns the ID of the piece with this text (spaces, not marks), or -1.
  [[nodiscard]] int32_t piece_of(std::string_view text) const { return ids_.find(text); }
  [[nodiscard]] int32_t byte_token(uint8_t byte) const { return byte_ids_[byte]; }  ///< -1 if there is none

 private:
  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;
  void encode_stretch(std::string_view text, bool is_first, std::vector<int32_t>& ids) const;
  void append_without_piece(std::string_view symbol, bool after_unknown, std::vector<int32_t>& ids) const;

  SentencePieceVocabulary vocabulary_;
  std::vector<std::string> bytes_;  ///< text of each token
  TextIndex ids_;                   ///< pieces that merges may produce, by `bytes_`
  SpecialTokens special_;           ///< control and unknown pieces
  AddedTokens added_;
  std::vector<bool> ends_text_;
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_ = 0;     ///< length in bytes of the longest piece in ids_
  bool cut_words_ = true;  ///< no piece has a space after another character
};

}  // namespace folio::data
