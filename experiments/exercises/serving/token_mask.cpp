// The mask of allowed next tokens. The output must match a regular expression; `rest` is its derivative with respect to
// the output so far. A token is allowed if `rest` matches a text that begins with its bytes. Others get probability 0.
//
//     rest = cat|cow, tokens: "c" "ca" "cat" "cats" "dog" and end_token
//     mask:                    1   1    1     0      0        0
//
// The token end_token ends the output, whatever its bytes are: it is allowed if `rest` matches the empty text. Other
// tokens without bytes are never allowed: they could be drawn forever without extending the output.
//
// derivative() and may_end() are those of the previous exercise, exercises/serving/derivative.cpp.
//
// Check it with: make exercise N=token_mask
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns a mask with an element for each token: true if `rest` can still match after the token's bytes; for end_token,
// true if `rest` matches the empty string.
std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  throw Unfilled(
      "token_mask is still to be written, in experiments/exercises/serving/token_mask.cpp.\n"
      "Take the derivatives of `rest` by a token's bytes, one after the other. If Nothing is left, it may not come.");
}

}  // namespace folio::exercises
