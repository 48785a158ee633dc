// Direct logit attribution: how much does each part contribute to a logit? Every branch adds its output to the residual
// stream, and the logits are a product of the normalized stream, so a logit is a sum of shares:
//
//     x = embedding + branch 1 + branch 2 + …          one row of the stream, (dim)
//     logit of token v = sum over d of output[v, d] * weight[d] * x[d] / rms(x)
//     rms(x) = √(mean of x[d]² + eps)
//
// rms(x) depends on all parts together. It is computed once, from the whole x, and treated as a constant: each part's
// share is its own product with output[v], times weight, divided by rms(x). The shares then sum to the logit.
//
// The function receives the embedding, and the stream after each branch.
//
// Example with dim = 2, weight = (1, 1), eps = 0 and output[v] = (1, 0): the embedding is (1, 0), and the stream after
// the only branch is (3, 4). The branch added (2, 4), and rms(x) = √12.5 = 3.536. The shares are 0.283 and 0.566, and
// the logit is 0.849.
//
// Read first: experiments/32_inside/README.md.
// Check it with: make exercise N=attribution
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the stream.size() shares of the logit of `token` at `row`: first the embedding's, then one per branch.
// stream[0] is the embedding, and stream[i] the stream after branch i, each (rows, dim).
Floats attribution(const std::vector<Floats>& stream, const Readout& readout, size_t row, size_t token) {
  throw Unfilled(
      "attribution is still to be written, in experiments/exercises/serving/attribution.cpp.\n"
      "What a branch added is the difference of two streams. First the rms of the last stream, which all shares have "
      "in common; then one product for each part.");
}

}  // namespace folio::exercises
