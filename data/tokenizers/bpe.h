// Byte-level BPE, as in GPT-2, SmolLM2 and Llama 3 (Radford et al. 2019). Text is split into words, and words into
// bytes. Then the adjacent pair with the lowest merge rank is merged, leftmost first, until no pair has a merge.
// Decoding restores the encoded bytes, unless the vocabulary normalizes text.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "data/tokenizers/pair_table.h"
#include "data/tokenizers/pre_tokenizer.h"
#include "data/tokenizers/symbol_merger.h"
#include "data/tokenizers/text_index.h"
#include "data/tokenizers/vocabulary_tokenizer.h"

namespace folio::data {

namespace hf {
struct TokenizerFiles;
}

/// A vocabulary of byte-level BPE. Its pieces are raw bytes, whereas files spell pieces in the byte-level alphabet.
struct BpeVocabulary : Vocabulary {
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t joined;
    bool operator==(const Merge&) const = default;
  };
  std::vector<Merge> merges;  ///< in order of rank, the lowest first
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  bool ignore_merges = false;  ///< a word that is a piece becomes one token, without merging
  bool nfc = false;            ///< text is normalized to NFC before it is split into words

  bool operator==(const BpeVocabulary&) const = default;
};

/// Finds the merges of a file by the spelling of their pieces.
class MergeReader {
 public:
  /// `spelled` has the pieces of the file by ID and must outlive the reader.
  explicit MergeReader(const std::vector<std::string>& spelled);
  /// Appends the merge of two pieces to `vocabulary`. Drops it if one of them, or the result, cannot occur in words:
  /// some files merge control tokens. Returns false if one of the three is not a piece.
  bool append(BpeVocabulary& vocabulary, const std::string& left, const std::string& right) const;

 private:
  TextIndex ids_;
};

/// Returns the merges as "left right", with pieces as in `spelled`.
[[nodiscard]] std::vector<std::string> spelled_merges(const BpeVocabulary& vocabulary,
                                                      const std::vector<std::string>& spelled);

class BpeTokenizer final : public VocabularyTokenizer<BpeVocabulary> {
 public:
  /// Checks and indexes a vocabulary. Throws core::Error, prefixed with `where`, if an ID is out of range, a piece is
  /// empty or occurs twice, or a merge does not produce its piece.
  BpeTokenizer(BpeVocabulary vocabulary, const std::string& where);
  BpeTokenizer(BpeTokenizer&&) = default;  // not copyable: words_ refers to the pieces

  /// Reads the "gpt2" vocabulary of a GGUF file. Throws core::Error if its tokenizer.ggml.pre is unknown.
  [[nodiscard]] static BpeTokenizer from_gguf(const core::GgufFile& file);

  /// Reads tokenizer.json and tokenizer_config.json: BPE with one of the supported pre-tokenizers. Throws core::Error
  /// that names the unsupported feature otherwise.
  [[nodiscard]] static BpeTokenizer from_hf(const hf::TokenizerFiles& source);
  /// Returns true for byte-level BPE: tokenizer.json has a pre-tokenizer and no byte fallback. The pre-tokenizer must
  /// not be Metaspace, unless the decoder is ByteLevel.
  [[nodiscard]] static bool is_hf(const nlohmann::json& tokenizer);

  /// Returns the tokens of a prompt. User-defined tokens are separated first (AddedTokens). If `nfc` is set, the text
  /// between them is normalized, so decoding returns normalized text. Drops bytes without a token, as Hugging Face's
  /// tokenizers do: published vocabularies lack some bytes that never occur in UTF-8.
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const PromptPiece> pieces) const override;
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] std::string kind() const override { return "byte-level BPE"; }
  [[nodiscard]] HfFiles to_hf() const override;

 private:
  class Encoder;

  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;

  PairTable<Join> merges_;
  std::optional<TextIndex> words_;       ///< to look up whole words as pieces; only if ignore_merges is set
  std::array<int32_t, 256> byte_ids_{};  ///< token of each byte, or -1
};

}  // namespace folio::data
