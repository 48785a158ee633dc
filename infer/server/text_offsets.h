// Character offsets of tokens in an answer's text, for "text_offset" of /v1/completions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/server/api.h"

namespace folio::infer::server {

/// Counts the characters (code points) that text has when written as JSON. The text is passed in pieces. Invalid UTF-8
/// counts as one U+FFFD per maximal subpart (Unicode 16, table 3-11).
class CharacterCounter {
 public:
  /// Appends `bytes` and returns the index of the character that contains their first byte. If `bytes` is empty,
  /// returns the index of the next character.
  size_t add(std::string_view bytes);

 private:
  size_t n_ = 0;            ///< number of complete characters
  std::string unfinished_;  ///< first bytes of an incomplete character
};

/// Returns, for each token of the prompt, the index of its first character in `prompt.text`. A token that is not in the
/// text, such as an added BOS, has the index of the next token.
[[nodiscard]] std::vector<size_t> text_offsets(const data::Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace folio::infer::server
