// A tokenizer with one token per distinct character (Unicode code point) of a text, sorted. The last token,
// `<|endoftext|>`, separates documents and is BOS and EOS, as other engines would otherwise use a character for these.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <unordered_map>

#include "data/tokenizers/vocabulary_tokenizer.h"

namespace folio::data {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

class CharTokenizer final : public VocabularyTokenizer<Vocabulary> {
 public:
  /// Builds the vocabulary of `text`. Throws core::Error that names `where` if the text is empty or not UTF-8.
  [[nodiscard]] static CharTokenizer from_text(std::string_view text, const std::string& where);

  /// Uses `characters` as the vocabulary. Throws core::Error if one is repeated or is not one valid UTF-8 character.
  explicit CharTokenizer(std::vector<std::string> characters, const std::string& where);

  /// Returns one token per character. Throws core::Error with line and column of the first character without a token.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {end_of_text()}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override;
  [[nodiscard]] std::string kind() const override { return "character"; }

  /// Returns the characters of the vocabulary, without `<|endoftext|>`.
  [[nodiscard]] std::vector<std::string> characters() const {
    return {vocabulary_.pieces.begin(), vocabulary_.pieces.end() - 1};
  }

  [[nodiscard]] static CharTokenizer from_gguf(const core::GgufFile& file);
  /// Returns true if every token of a "gpt2" vocabulary is one character, except the last, `<|endoftext|>`.
  [[nodiscard]] static bool is_gguf(const core::GgufFile& file);

  /// Returns tokenizer.json and tokenizer_config.json. The model is written as BPE without merges or a pre-tokenizer.
  [[nodiscard]] HfFiles to_hf() const override;

  /// Reads a parsed tokenizer.json. is_hf() returns true if the file has no merges, byte fallback or pre-tokenizer.
  [[nodiscard]] static CharTokenizer from_hf(const nlohmann::json& tokenizer, const std::string& where);
  [[nodiscard]] static bool is_hf(const nlohmann::json& tokenizer);

 private:
  /// Returns a byte-level BPE ("gpt2") vocabulary whose merges join the bytes of each character.
  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;

  /// Creates a tokenizer from all pieces of a file, in order. Throws core::Error unless the last is `<|endoftext|>`.
  static CharTokenizer from_pieces(std::vector<std::string> pieces, const std::string& where);

  /// Returns the code point if `bytes` are exactly one UTF-8 character, otherwise nullopt.
  static std::optional<uint32_t> character_in(std::string_view bytes);

  std::unordered_map<uint32_t, int32_t> id_of_;  ///< token of each code point
};

}  // namespace folio::data
