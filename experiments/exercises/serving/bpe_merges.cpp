// Byte pair encoding (BPE): learns a vocabulary by merging. In each iteration the most frequent pair of adjacent tokens
// becomes a new token:
//
//     find the best pair; in each word, from left to right, replace its occurrences by the new token; repeat
//
// until there are enough merges or no pair is left. The first merge creates the token first_new, the next one first_new
// + 1. First do ten merges by hand: the tests have an example. A short one, with a = 0, b = 1, c = 2, first_new = 3:
//
//     aaab twice, bc once      (a, a) occurs 4 times, (a, b) twice, (b, c) once: 3 = (0, 0)
//     3ab  twice, bc once      (a, b) and (3, a) occur twice each; (0, 1) has the smaller left token: 4 = (0, 1)
//     34   twice, bc once      5 = (3, 4)
//     5    twice, bc once      6 = (1, 2), and no pair is left
//
// Find the best pair with best_pair() of the previous exercise, exercises/serving/best_pair.cpp.
//
// Check it with: make exercise N=bpe_merges
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the merges in order; the i-th creates the token first_new + i.
std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  throw Unfilled(
      "train_merges is still to be written, in experiments/exercises/serving/bpe_merges.cpp.\n"
      "A round is best_pair(words), and then a new list of tokens for each word. The next round counts in these.");
}

}  // namespace folio::exercises
