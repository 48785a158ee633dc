// Splits a text at special tokens such as "<|im_end|>". The leftmost match wins, then the longest, as for the added
// tokens of Hugging Face's tokenizers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

/// What a token takes of the text around it, and in which text it is found, as an AddedToken of tokenizers says it.
struct TokenFlags {
  bool lstrip = false;       ///< white space before it is part of it
  bool rstrip = false;       ///< and white space after it
  bool single_word = false;  ///< found only where no letter, digit or underscore (\w) is next to it
  bool normalized = false;   ///< found in the normalized text, as its own normalized text
  bool apart = false;        ///< a user-defined piece that is not a result of merges, though two pieces spell it

  bool operator==(const TokenFlags&) const = default;
};

struct SpecialToken {
  std::string text;
  int32_t id = 0;
  TokenFlags flags{};
  bool is_special = true;  ///< false: user-defined, which is found in every text
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

  /// The token with this id, or null.
  [[nodiscard]] const SpecialToken* token_of(int32_t id) const;

  /// Whether a token may begin with this byte.
  [[nodiscard]] bool may_begin(char byte) const { return begins_[static_cast<unsigned char>(byte)]; }

  /// The longest token that `text` begins with, or null; a special one has at most `longest_special` bytes. One binary
  /// search for each byte of it.
  [[nodiscard]] const SpecialToken* begin_of(std::string_view text,
                                             size_t longest_special = std::string_view::npos) const;

  /// Splits `text`: calls `special(token)` for each token and `between(stretch)` for the text in between, unless empty.
  template <typename Between, typename Special>
  void split(std::string_view text, Between&& between, Special&& special) const;

 private:
  std::vector<SpecialToken> tokens_;
  std::map<int32_t, size_t> by_id_;  ///< places in tokens_
  std::array<bool, 256> begins_{};   ///< whether a token begins with this byte
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
