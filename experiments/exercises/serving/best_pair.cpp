// Byte pair encoding (BPE) learns a vocabulary by merging: the most frequent pair of adjacent tokens becomes a new
// token, repeatedly. This is the first half of an iteration: find that pair.
//
// Text is split into words, and no pair crosses a word boundary. So the distinct words and their counts are sufficient:
// a text of a million words has some ten thousand distinct ones.
//
//     hug 10 times, pug 5 times, hugs 5 times; h = 7, u = 20, g = 6, p = 15, s = 18:
//     (u, g) occurs 10 + 5 + 5 = 20 times, (h, u) 15, (p, u) 5, (g, s) 5 times: the result is (20, 6), 20 times
//
// Ties: the smaller left token wins, then the smaller right one. Overlapping occurrences all count: in aaa the pair (a,
// a) occurs twice.
//
// Check it with: make exercise N=best_pair
#include <map>
#include <utility>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the most frequent pair, or a default PairCount (count 0) if there is none.
PairCount best_pair(const std::vector<CountedWord>& words) {
  throw Unfilled(
      "best_pair is still to be written, in experiments/exercises/serving/best_pair.cpp.\n"
      "Count the pairs in a std::map from (left, right) to a number. It is sorted, so the first of equal counts is the "
      "one that is asked for.");
}

}  // namespace folio::exercises
