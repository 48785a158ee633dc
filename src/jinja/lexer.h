// A Jinja template as tokens, with the whitespace rules that transformers sets: trim_blocks, lstrip_blocks, and the "-"
// and "+" of a tag.
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
  std::string text;  ///< of a string: without quotes and escapes
};

/// The last token is End. Throws core::Error that begins with the line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace folio::data::jinja
