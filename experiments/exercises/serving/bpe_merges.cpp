// Byte pair encoding: a vocabulary is learned by merging. In each round the pair of neighbouring tokens that comes most
// often becomes a new token:
//
//     find the best pair; in each word, from left to right, replace each of its places by the new token; again
//
// until there are enough merges, or no pair is left. The first merge makes the token first_new, the next one
// first_new + 1. Do ten by hand before: the laws have a text for it. A short one, with a = 0, b = 1, c = 2 and new
// tokens from 3 on:
//
//     aaab twice, bc once      (a, a) comes 4 times, (a, b) twice, (b, c) once: 3 = (0, 0)
//     3ab  twice, bc once      (a, b) and (3, a) come twice each; (0, 1) has the smaller left token: 4 = (0, 1)
//     34   twice, bc once      5 = (3, 4)
//     5    twice, bc once      6 = (1, 2), and no pair is left
//
// The best pair is that of the exercise before: exercises/serving/best_pair.cpp.
//
// Check it with: make exercise N=bpe_merges
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// The merges in their order: the i-th makes the token first_new + i.
std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  throw Unfilled(
      "train_merges is still to be written, in experiments/exercises/serving/bpe_merges.cpp.\n"
      "A round is best_pair(words), and then a new list of tokens for each word. The next round counts in these.");
}

}  // namespace folio::exercises
