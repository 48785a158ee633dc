#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::infer::test {

/// A tokenizer that can't encode. The last of the given tokens is the end token; those in `suppressed` are never drawn.
class MadeTokenizer : public data::Tokenizer {
 public:
  explicit MadeTokenizer(std::vector<std::string> pieces, std::vector<int32_t> suppressed)
      : suppressed(std::move(suppressed)), pieces_(std::move(pieces)) {}
  [[nodiscard]] std::vector<int32_t> encode(std::string_view) const override { return {}; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override {
    return pieces_.at(static_cast<size_t>(id));
  }
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return vocab_size() - 1; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return suppressed; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {0}; }
  [[nodiscard]] std::string kind() const override { return "made"; }

  std::vector<int32_t> suppressed;

 private:
  std::vector<std::string> pieces_;
};

/// A vocabulary of 37 different characters, of which the last (the end token) and token 5 are never drawn.
class LetterTokenizer : public MadeTokenizer {
 public:
  LetterTokenizer() : MadeTokenizer(letters(), {36, 5}) {}

 private:
  static std::vector<std::string> letters() {
    std::vector<std::string> pieces;
    for (char letter = '0'; pieces.size() < 37; ++letter) pieces.emplace_back(1, letter);
    return pieces;
  }
};

}  // namespace folio::infer::test
