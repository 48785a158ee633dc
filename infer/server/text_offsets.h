// Where in the text of an answer its tokens begin, in characters, for "text_offset" of /v1/completions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/server/api.h"

namespace folio::infer::server {

/// Counts the characters (code points) of a text in parts, as JSON shows them: the longest beginning of a character
/// that is not completed is one U+FFFD (Unicode 16, table 3-11).
class CharacterCounter {
 public:
  /// Appends `bytes` and returns the index of the character that has the first of them. Without any, of the next one.
  size_t add(std::string_view bytes);

 private:
  size_t n_ = 0;            ///< complete characters
  std::string unfinished_;  ///< a character's first bytes
};

/// Returns the index of the character of `prompt.text` at which each of its tokens begins. A token that the text lacks,
/// such as an added BOS, begins where the next one does.
[[nodiscard]] std::vector<size_t> text_offsets(const data::Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace folio::infer::server
