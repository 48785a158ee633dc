// The mistakes, each with the test that must fail first and words of its message:
//     alone: OneRankSendsNothing: sends to itself
//     no_second_round: TwoRanksHaveTheSum: was never replaced
//     adds_twice: TwoRanksHaveTheSum: has a number twice
//     mean: TwoRanksHaveTheSum: is 5.5, but
//     wrong_way: FourRanksHaveTheSum: whose numbers are in it
//     forgets_the_rest: WhatDoesNotDivideIsSummedToo: together all 7
//     skips_empty: ThereMayBeFewerNumbersThanRanks: never sends
//     own_order: AllRanksHaveTheSameBits: is to be summed once
//     whole_array: ARankSendsItsArrayLessThanTwice: Send the chunk alone
#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void all_reduce(Floats& x, const Ring& ring) {
  const size_t p = ring.n_ranks, n = x.size();
  if (wrong("alone") && p == 1) ring.pass(x);
  if (wrong("own_order")) {
    Floats round = x;
    for (size_t step = 0; step + 1 < p; ++step) {
      round = ring.pass(round);
      for (size_t i = 0; i < n; ++i) x[i] += round[i];
    }
    return;
  }
  const auto begin = [&](size_t chunk) { return wrong("forgets_the_rest") ? chunk * (n / p) : chunk * n / p; };
  const auto step = [&](size_t sent, size_t comes, bool adds) {
    sent %= p;
    comes %= p;
    const bool empty = begin(sent) == begin(sent + 1);
    if (wrong("skips_empty") && empty) return;
    const Floats chunk(x.data() + begin(sent), x.data() + begin(sent + 1));
    Floats came = ring.pass(wrong("whole_array") ? x : chunk);
    const size_t first = begin(comes), last = begin(comes + 1);
    if (wrong("whole_array")) came = {came.data() + first, came.data() + last};
    const size_t length = std::min(came.size(), last - first);
    for (size_t i = 0; i < length; ++i) x[first + i] = adds ? x[first + i] + came[i] : came[i];
  };
  for (size_t s = 0; s + 1 < p; ++s) {
    const size_t sent = ring.rank + p - s;
    step(sent, wrong("wrong_way") ? sent + 1 : sent - 1, true);
  }
  for (size_t s = 0; s + 1 < p && !wrong("no_second_round"); ++s) {
    const size_t sent = ring.rank + 1 + p - s;
    step(sent, wrong("wrong_way") ? sent + 1 : sent - 1, wrong("adds_twice"));
  }
  for (float& number : x) number /= wrong("mean") ? static_cast<float>(p) : 1.0F;
}

}  // namespace folio::exercises
