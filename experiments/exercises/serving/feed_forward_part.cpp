// A layer on several ranks, without a copy of it at each: tensor parallelism. The layer is
//
//     y = w2 relu(w1 x) + bias        w1: (hidden, dim)    w2: (dim, hidden)    relu(h) = max(h, 0)
//
// Each of p ranks has x, and hidden / p of the hidden numbers: of w1 the rows that make them, of w2 the columns that
// take them. A hidden number is then whole at its rank, so its relu can be taken there; and y is a sum over hidden
// numbers, so the ranks' outputs have to be added, and nothing else. (Papers write x A for our w1 x, and so call the
// rows of w1 the columns of A, and the columns of w2 the rows of B: column parallel, row parallel.)
//
// For example dim = 1, hidden = 2, w1 = (1, -1), w2 = (3, 4), bias = 10, and two ranks: rank 0 has w1 = (1), w2 = (3),
// rank 1 has w1 = (-1), w2 = (4). For x = 2 the layer has w2 relu(2, -2) + 10 = 16, and the ranks' outputs are to have
// this sum, the bias too.
//
// Read first: experiments/27_ranks/README.md.
// Check it with: make exercise N=feed_forward_part
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// What rank `rank` of n_ranks has: hidden numbers rank * h to (rank + 1) * h - 1, with h = whole.hidden / n_ranks,
// which divides. A layer of its own, with dim as it is and hidden = h.
FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks) {
  throw Unfilled(
      "part_of is still to be written, in experiments/exercises/serving/feed_forward_part.cpp.\n"
      "Of w1 some rows, which lie together; of w2 some columns, a piece of each row. Who has the bias?");
}

// x: (dim). Returns (dim). The same function for the whole layer and for a part.
Floats output_of(const FeedForward& layer, const Floats& x) {
  throw Unfilled(
      "output_of is still to be written, in experiments/exercises/serving/feed_forward_part.cpp.\n"
      "Hidden number by hidden number: its product with x, its relu, and what it adds to each number of y.");
}

}  // namespace folio::exercises
