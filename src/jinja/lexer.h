// Splits a Jinja template into tokens, with transformers' whitespace settings (trim_blocks, lstrip_blocks) and the
// signs "-" and "+" in tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio::data::jinja {

enum class TokenKind {
  Data,
  OutputBegin,
  OutputEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  ///< for a String, the contents without quotes, with escapes decoded
};

/// Returns the tokens, of which the last is End. Throws core::Error that begins with the line number.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace folio::data::jinja
