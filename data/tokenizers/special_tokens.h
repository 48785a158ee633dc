// Special tokens such as "<|im_end|>". The longest match wins, as for added tokens of Hugging Face's tokenizers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

/// Specifies how an added token matches text, as in an AddedToken of Hugging Face's tokenizers.
struct TokenFlags {
  bool lstrip = false;       ///< the match includes white space before the token
  bool rstrip = false;       ///< the match includes white space after the token
  bool single_word = false;  ///< matches only if no letter, digit or underscore (\w) is next to it
  bool normalized = false;   ///< the token and the text are both normalized before matching
  bool apart = false;        ///< user-defined piece that merges must not produce: it matches only as an added token

  bool operator==(const TokenFlags&) const = default;
};

struct SpecialToken {
  std::string text;
  int32_t id = 0;
  TokenFlags flags{};
  bool is_special = true;  ///< false for a user-defined token, which matches in every text
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  /// Drops tokens with an empty text, and all but the first of those with the same text.
  explicit SpecialTokens(std::vector<SpecialToken> tokens);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] const std::vector<SpecialToken>& tokens() const { return tokens_; }  ///< sorted by text

  /// Returns the ID of the token with this text, or -1.
  [[nodiscard]] int32_t id_of(std::string_view text) const;

  /// Returns the token with this ID, or null.
  [[nodiscard]] const SpecialToken* token_of(int32_t id) const;

  /// Returns true if a token begins with this byte.
  [[nodiscard]] bool may_begin(char byte) const { return begins_[static_cast<unsigned char>(byte)]; }

  /// Returns the longest token at the beginning of `text`, or null. Special tokens longer than `longest_special` bytes
  /// are skipped. Performs one binary search per byte.
  [[nodiscard]] const SpecialToken* begin_of(std::string_view text,
                                             size_t longest_special = std::string_view::npos) const;

 private:
  std::vector<SpecialToken> tokens_;
  std::map<int32_t, size_t> by_id_;  ///< maps an ID to its index in tokens_
  std::array<bool, 256> begins_{};   ///< for each byte, true if a token begins with it
};

}  // namespace folio::data
