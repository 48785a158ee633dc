// One token for each distinct character (Unicode code point) of a text, in sorted order, and then `<|endoftext|>`. It
// separates documents and is the explicit BOS and EOS; without one, other engines use the id of some character.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <unordered_map>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

class CharTokenizer final : public Tokenizer {
 public:
  /// The vocabulary of `text`, which `where` names in errors. Throws core::Error if it is empty or not UTF-8.
  [[nodiscard]] static CharTokenizer from_text(std::string_view text, const std::string& where);

  /// From distinct characters, each valid UTF-8, in the order of their ids. Throws core::Error otherwise.
  explicit CharTokenizer(std::vector<std::string> characters, const std::string& where);

  /// Throws core::Error with the first character outside the vocabulary and its line and column.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(vocabulary_.pieces.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return vocab_size() - 1; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {end_of_text()}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override;
  [[nodiscard]] std::string kind() const override { return "character"; }

  /// The characters, without `<|endoftext|>`.
  [[nodiscard]] std::vector<std::string> characters() const {
    return {vocabulary_.pieces.begin(), vocabulary_.pieces.end() - 1};
  }

  [[nodiscard]] static CharTokenizer from_gguf(const core::GgufFile& file);
  /// Whether every token of a "gpt2" vocabulary is one character, except the last, `<|endoftext|>`.
  [[nodiscard]] static bool is_gguf(const core::GgufFile& file);

  /// tokenizer.json and tokenizer_config.json: BPE over raw characters, no merges, no pre-tokenizer, Fuse decoder.
  void write_hf(const std::filesystem::path& directory) const override;
  [[nodiscard]] static CharTokenizer read_hf(const std::filesystem::path& directory);

  /// From a parsed tokenizer.json. It is of this kind if it has no merges, no byte fallback and no
  /// pre-tokenizer.
  [[nodiscard]] static CharTokenizer from_hf(const nlohmann::json& tokenizer, const std::string& where);
  [[nodiscard]] static bool is_hf(const nlohmann::json& tokenizer);

 private:
  /// As a "gpt2" byte-level vocabulary whose only merges join the bytes of one character.
  [[nodiscard]] core::GgufMetadata vocabulary_to_gguf() const override;

  /// From the pieces of a file. Throws core::Error if the last is not `<|endoftext|>`.
  static CharTokenizer from_pieces(std::vector<std::string> pieces, const std::string& where);

  /// The code point, if `bytes` are exactly one character.
  static std::optional<uint32_t> character_in(std::string_view bytes);

  Vocabulary vocabulary_;
  std::unordered_map<uint32_t, int32_t> id_of_;  ///< by code point
  SpecialTokens special_;                        ///< `<|endoftext|>`
};

}  // namespace folio::data
