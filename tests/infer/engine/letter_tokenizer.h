#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::infer::test {

/// Each of 37 tokens is a letter of its own.
class LetterTokenizer : public data::Tokenizer {
 public:
  LetterTokenizer() {
    for (char letter = '0'; pieces_.size() < 37; ++letter) pieces_.emplace_back(1, letter);
  }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view) const override { return {}; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override {
    return pieces_.at(static_cast<size_t>(id));
  }
  [[nodiscard]] int32_t vocab_size() const override { return 37; }
  [[nodiscard]] int32_t end_of_text() const override { return 36; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {36, 5}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {0}; }
  [[nodiscard]] std::string kind() const override { return "letters"; }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace folio::infer::test
