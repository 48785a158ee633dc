// Which tokens may come next? A model draws tokens, and a form is about bytes: here a regular expression, of which
// `rest` is left behind the text so far. A token may come if some text of the form goes on with its bytes. All others
// get the probability 0.
//
//     rest = cat|cow, tokens: "c" "ca" "cat" "cats" "dog" and one that ends the text
//     mask:                    1   1    1     0      0        0
//
// The token end_token is no text, whatever its bytes are: it may come where the text may end. Other tokens without
// bytes never come: they would be drawn for ever, and the text would not grow.
//
// derivative() and may_end() are those of the exercise before: exercises/serving/derivative.cpp.
//
// Check it with: make exercise N=token_mask
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Whether each token may come; as many as there are tokens.
std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  throw Unfilled(
      "token_mask is still to be written, in experiments/exercises/serving/token_mask.cpp.\n"
      "Take the derivatives of `rest` by a token's bytes, one after the other. If Nothing is left, it may not come.");
}

}  // namespace folio::exercises
