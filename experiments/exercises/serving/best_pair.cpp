// Byte pair encoding learns a vocabulary by merging: the pair of neighbouring tokens that comes most often becomes a
// new token, again and again. Here is the first half of a round: which pair is it?
//
// A text is split into words, and no pair crosses from one word to the next. So it is enough to know the distinct words
// and how often each comes: a text of a million words has some ten thousand of them.
//
//     hug 10 times, pug 5 times, hugs 5 times; h = 7, u = 20, g = 6, p = 15, s = 18:
//     (u, g) comes 10 + 5 + 5 = 20 times, (h, u) 15 times, (p, u) 5 times, (g, s) 5 times: it is (20, 6), 20 times
//
// Of pairs that come equally often it is the one with the smaller left token, then with the smaller right one. Every
// place counts, also where two of them overlap: in aaa the pair (a, a) comes twice.
//
// Check it with: make exercise N=best_pair
#include <map>
#include <utility>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// The pair that comes most often. If there is none, as PairCount is from the beginning: count 0.
PairCount best_pair(const std::vector<CountedWord>& words) {
  throw Unfilled(
      "best_pair is still to be written, in experiments/exercises/serving/best_pair.cpp.\n"
      "Count the pairs in a std::map from (left, right) to a number. It is sorted, so the first of equal counts is the "
      "one that is asked for.");
}

}  // namespace folio::exercises
