// Byte pair encoding: a vocabulary is learned by merging. In each round the pair of neighbouring tokens that comes most
// often becomes a new token:
//
//     count every pair of neighbours; take the most frequent one, and of equals the one with the smaller left token,
//     then the smaller right one; in the text, from left to right, replace each of its places by the new token; again
//
// Stop before, if no pair is left that comes at least twice. For example, with a = 0, b = 1, c = 2 and new tokens from
// 3 on:
//
//     a b a b a b c     (a, b) comes 3 times, (b, a) twice: 3 = (0, 1)
//     3 3 3 c           (3, 3) comes twice, since places may overlap when counted: 4 = (3, 3)
//     4 3 c             every pair comes once: the end
//
// Check it with: make exercise N=bpe_merges
#include <map>
#include <utility>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// The merges in their order: the i-th makes the token first_new + i.
std::vector<Merge> train_merges(std::vector<int32_t> text, int32_t first_new, size_t n_merges) {
  throw Unfilled(
      "train_merges is still to be written, in experiments/exercises/serving/bpe_merges.cpp.\n"
      "Count the pairs in a std::map from (left, right) to a number. It is sorted, so the first of equal counts is the "
      "one "
      "that is asked for.");
}

}  // namespace folio::exercises
