// Defines a tokenizer with a token for each byte, whose ids are easy to read in tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::data::test {

/// Encodes each byte as its value. encode() never returns the special tokens <s>, </s> and <end> (256 to 258).
class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : special_({{.text = "<s>", .id = 256}, {.text = "</s>", .id = 257}, {.text = "<end>", .id = 258}}) {}
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override {
    return {reinterpret_cast<const unsigned char*>(text.data()),
            reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
  }
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override {
    static const std::vector<std::string> all = [] {
      std::vector<std::string> bytes;
      for (int i = 0; i < 256; ++i) bytes.emplace_back(1, static_cast<char>(i));
      bytes.insert(bytes.end(), 3, "");
      return bytes;
    }();
    return all.at(static_cast<size_t>(id));
  }
  [[nodiscard]] int32_t vocab_size() const override { return 259; }
  [[nodiscard]] int32_t end_of_text() const override { return 257; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {256}; }
  [[nodiscard]] std::string kind() const override { return "byte"; }

 private:
  SpecialTokens special_;
};

}  // namespace folio::data::test
