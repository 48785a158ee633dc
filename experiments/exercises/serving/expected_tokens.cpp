// The expected number of tokens of a step with draft tokens. The step computes a row for the sequence's last token and
// a row for each draft, and draws a token after each row. A draft is right if it equals the token drawn at its
// position. The step keeps the drafts before the first wrong one, or all, and the token drawn after them.
//
//     right[0] is the probability that the first draft is right; right[i] is the probability that draft i is right if
//     all drafts before it are. A draft after a wrong one is discarded: its row continues another sequence.
//
// Example with right = (0.5, 0.8): 0 drafts are right with probability 0.5, one with 0.5 * 0.2 = 0.1, both with 0.5 *
// 0.8 = 0.4. With the drawn token these are 1, 2 and 3 tokens: 0.5 * 1 + 0.1 * 2 + 0.4 * 3 = 1.9.
//
// Read first: experiments/34_ahead/README.md.
// Check it with: make exercise N=expected_tokens
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the expected number of tokens of a step with right.size() drafts.
double expected_tokens(const std::vector<double>& right) {
  throw Unfilled(
      "expected_tokens is still to be written, in experiments/exercises/serving/expected_tokens.cpp.\n"
      "An expected number is a sum: over the drafts, of the probability that the step keeps each. The token that is "
      "drawn anyway is kept always.");
}

}  // namespace folio::exercises
