// BPE over pieces with scores and byte fallback, as SentencePiece makes it for Llama (Kudo & Richardson 2018, Sennrich
// et al. 2016): each character is a symbol, and the adjacent pair whose joined text is the piece of the best score is
// joined, the leftmost of equal ones first, until no pair is a piece. A character without a piece is written as its
// bytes.
#pragma once

#include <array>

#include "data/tokenizers/text_index.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data {

namespace hf {
struct Source;
}

/// What a file says. Normal pieces write a space as U+2581 "▁"; user-defined pieces are text as it is.
struct SentencePieceVocabulary : Vocabulary {
  std::vector<float> scores;
  bool add_space_prefix = true;

  /// SentencePiece's own ids.
  SentencePieceVocabulary() {
    unk = 0;
    bos = 1;
    eos = 2;
    add_bos = true;
  }
  bool operator==(const SentencePieceVocabulary&) const = default;
};

/// Throws core::Error that begins with `where` if lists differ in length, an id is out of range, a piece is empty,
/// longer than 1024 bytes, repeated (llama.cpp aborts on it) or not UTF-8, a score is not finite, or a byte piece not
/// "<0xNN>".
void validate(const SentencePieceVocabulary& vocabulary, const std::string& where);

class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Throws core::Error if the vocabulary is not valid, or no piece is "▁".
  SentencePieceTokenizer(SentencePieceVocabulary vocabulary, const std::string& where);
  SentencePieceTokenizer(SentencePieceTokenizer&&) = default;  // moved, the texts stay where ids_ points; copied, not

  /// The "llama" vocabulary of a GGUF file, with llama.cpp's defaults for the keys that are missing.
  [[nodiscard]] static SentencePieceTokenizer from_gguf(const core::GgufFile& file);

  /// What tokenizer.json and tokenizer_config.json say: BPE whose merges are all the splits of each piece, one piece
  /// after the other, with Llama's normalizer and decoder. Throws core::Error that names what is otherwise.
  [[nodiscard]] static SentencePieceTokenizer from_hf(const hf::Source& source);

  /// Any bytes have tokens: U+2581 counts as a space, and a byte that is no UTF-8 is a symbol of its own. User-defined
  /// pieces are cut out first (leftmost, then longest); each stretch between them gets the space in front where the
  /// vocabulary says so. Throws core::Error for a character that has neither piece, bytes nor an unknown token.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override;

  /// Without the spaces that `encode` put in front.
  [[nodiscard]] std::string decode(const std::vector<int32_t>& tokens) const override;
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;

  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return vocabulary_.eos; }
  [[nodiscard]] int32_t begin_of_text() const override { return vocabulary_.bos; }
  [[nodiscard]] bool ends_text(int32_t id) const override {
    return id >= 0 && id < vocab_size() && ends_text_[static_cast<size_t>(id)];
  }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {vocabulary_.bos}; }
  [[nodiscard]] std::string kind() const override { return "SentencePiece"; }
  void write_hf(const std::filesystem::path& directory) const override;

  [[nodiscard]] const SentencePieceVocabulary& vocabulary() const { return vocabulary_; }

  /// The normal piece that stands for `text` (spaces as spaces), or -1.
  [[nodiscard]] int32_t piece_of(std::string_view text) const { return ids_.find(text); }
  [[nodiscard]] int32_t byte_token(uint8_t byte) const { return byte_ids_[byte]; }  ///< -1: none

 private:
  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;
  void encode_stretch(std::string_view text, std::vector<int32_t>& ids) const;
  void append_without_piece(std::string_view symbol, bool after_unknown, std::vector<int32_t>& ids) const;

  SentencePieceVocabulary vocabulary_;
  std::vector<std::string> bytes_;  ///< what each id stands for
  TextIndex ids_;                   ///< normal pieces, by `bytes_`
  SpecialTokens special_;           ///< control and unknown pieces
  SpecialTokens user_defined_;
  std::vector<bool> ends_text_;
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_ = 0;     ///< bytes of the longest normal piece
  bool cut_words_ = true;  ///< no piece goes on after a space that follows something else
};

}  // namespace folio::data
