// Defines a tokenizer with a token for each byte, whose ids are easy to read in tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::data::test {

/// Encodes each byte as its value. encode() never returns the special tokens, whose ids are 256 and up. The first two
/// are BOS and EOS.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(const std::vector<std::string>& special = {"<s>", "</s>", "<end>"})
      : bytes_(256 + special.size()) {
    for (size_t i = 0; i < 256; ++i) bytes_[i].assign(1, static_cast<char>(i));
    std::vector<SpecialToken> tokens;
    for (const std::string& text : special) {
      tokens.push_back({.text = text, .id = static_cast<int32_t>(256 + tokens.size())});
    }
    special_ = SpecialTokens(std::move(tokens));
  }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override {
    return {reinterpret_cast<const unsigned char*>(text.data()),
            reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
  }
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override { return bytes_.at(static_cast<size_t>(id)); }
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  [[nodiscard]] int32_t bos() const override { return 256; }
  [[nodiscard]] int32_t end_of_text() const override { return 257; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {256}; }
  [[nodiscard]] std::string kind() const override { return "byte"; }

 private:
  std::vector<std::string> bytes_;  ///< each token's text, empty for special tokens
  SpecialTokens special_;
};

}  // namespace folio::data::test
