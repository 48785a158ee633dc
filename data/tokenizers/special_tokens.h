// Splits a text at special tokens such as "<|im_end|>". The leftmost match wins, then the longest, as for the added
// tokens of Hugging Face's tokenizers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

struct SpecialToken {
  std::string text;
  int32_t id = 0;
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  /// Tokens with an empty text are dropped; of several with the same text, the first is kept.
  explicit SpecialTokens(std::vector<SpecialToken> tokens);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] const std::vector<SpecialToken>& tokens() const { return tokens_; }  ///< sorted by text

  /// The id of the token whose text is `text`, or -1.
  [[nodiscard]] int32_t id_of(std::string_view text) const;

  /// The longest token that `text` begins with, or null. One binary search for each byte of it.
  [[nodiscard]] const SpecialToken* begin_of(std::string_view text) const;

  /// Splits `text`: calls `special(token)` for each token and `between(stretch)` for the text in between, unless empty.
  template <typename Between, typename Special>
  void split(std::string_view text, Between&& between, Special&& special) const;

 private:
  std::vector<SpecialToken> tokens_;
  std::array<bool, 256> begins_{};  ///< whether a token begins with this byte
};

template <typename Between, typename Special>
void SpecialTokens::split(std::string_view text, Between&& between, Special&& special) const {
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && !empty();) {
    const SpecialToken* token = begin_of(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (at > begin) between(text.substr(begin, at - begin));
    special(*token);
    at += token->text.size();
    begin = at;
  }
  if (begin < text.size()) between(text.substr(begin));
}

}  // namespace folio::data
