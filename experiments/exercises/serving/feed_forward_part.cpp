// Tensor parallelism: a layer split over several ranks without duplicating its weights. The layer is
//
//     y = w2 relu(w1 x) + bias        w1: (hidden, dim)    w2: (dim, hidden)    relu(h) = max(h, 0)
//
// Each of p ranks has x and hidden / p of the hidden elements: the rows of w1 that compute them, and the columns of w2
// that read them. Each hidden element is complete on its rank, so relu can be applied there; y is a sum over hidden
// elements, so only the ranks' outputs need to be added. (Papers write x A for w1 x. The rows of w1 are then the
// columns of A, and the columns of w2 the rows of B: column parallel, row parallel.)
//
// Example with dim = 1, hidden = 2, w1 = (1, -1), w2 = (3, 4), bias = 10 and two ranks: rank 0 has w1 = (1), w2 = (3),
// rank 1 has w1 = (-1), w2 = (4). For x = 2 the layer's output is w2 relu(2, -2) + 10 = 16, and the ranks' outputs must
// have this sum, including the bias only once.
//
// Read first: experiments/27_ranks/README.md.
// Check it with: make exercise N=feed_forward_part
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the part of rank `rank` of n_ranks: hidden elements rank * h to (rank + 1) * h - 1, with h = whole.hidden /
// n_ranks (always an integer). The part is a layer with the same dim and hidden = h.
FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks) {
  throw Unfilled(
      "part_of is still to be written, in experiments/exercises/serving/feed_forward_part.cpp.\n"
      "Of w1 some rows, which lie together; of w2 some columns, a piece of each row. Who has the bias?");
}

// Returns the output (dim) of a whole layer, or of a part, for x (dim).
Floats output_of(const FeedForward& layer, const Floats& x) {
  throw Unfilled(
      "output_of is still to be written, in experiments/exercises/serving/feed_forward_part.cpp.\n"
      "Hidden number by hidden number: its product with x, its relu, and what it adds to each number of y.");
}

}  // namespace folio::exercises
