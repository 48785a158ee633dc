#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongReduce {
  None,
  Alone,
  NoSecondRound,
  AddsTwice,
  Mean,
  WrongWay,
  Forgets,
  SkipsEmpty,
  OwnOrder,
  WholeArray
};

template <WrongReduce kWrong>
void reduce_wrongly(Floats& x, const Ring& ring) {
  const size_t p = ring.n_ranks, n = x.size();
  if (kWrong == WrongReduce::Alone && p == 1) ring.pass(x);
  if (kWrong == WrongReduce::OwnOrder) {
    Floats round = x;
    for (size_t step = 0; step + 1 < p; ++step) {
      round = ring.pass(round);
      for (size_t i = 0; i < n; ++i) x[i] += round[i];
    }
    return;
  }
  const auto begin = [&](size_t chunk) { return kWrong == WrongReduce::Forgets ? chunk * (n / p) : chunk * n / p; };
  const auto step = [&](size_t sent, size_t comes, bool adds) {
    sent %= p;
    comes %= p;
    const bool empty = begin(sent) == begin(sent + 1);
    if (kWrong == WrongReduce::SkipsEmpty && empty) return;
    const Floats chunk(x.data() + begin(sent), x.data() + begin(sent + 1));
    Floats came = ring.pass(kWrong == WrongReduce::WholeArray ? x : chunk);
    const size_t first = begin(comes), last = begin(comes + 1);
    if (kWrong == WrongReduce::WholeArray) came = {came.data() + first, came.data() + last};
    const size_t length = std::min(came.size(), last - first);
    for (size_t i = 0; i < length; ++i) x[first + i] = adds ? x[first + i] + came[i] : came[i];
  };
  for (size_t s = 0; s + 1 < p; ++s) {
    const size_t sent = ring.rank + p - s;
    step(sent, kWrong == WrongReduce::WrongWay ? sent + 1 : sent - 1, true);
  }
  for (size_t s = 0; s + 1 < p && kWrong != WrongReduce::NoSecondRound; ++s) {
    const size_t sent = ring.rank + 1 + p - s;
    step(sent, kWrong == WrongReduce::WrongWay ? sent + 1 : sent - 1, kWrong == WrongReduce::AddsTwice);
  }
  for (float& number : x) number /= kWrong == WrongReduce::Mean ? static_cast<float>(p) : 1.0F;
}

using ReduceFunction = void(Floats&, const Ring&);
const std::vector<Mistake<ReduceFunction>> kReduceMistakes{
    {"alone", "OneRankSendsNothing", "sends to itself", reduce_wrongly<WrongReduce::Alone>},
    {"no_second_round", "TwoRanksHaveTheSum", "was never replaced", reduce_wrongly<WrongReduce::NoSecondRound>},
    {"adds_twice", "TwoRanksHaveTheSum", "has a number twice", reduce_wrongly<WrongReduce::AddsTwice>},
    {"mean", "TwoRanksHaveTheSum", "is 5.5, but", reduce_wrongly<WrongReduce::Mean>},
    {"wrong_way", "FourRanksHaveTheSum", "whose numbers are in it", reduce_wrongly<WrongReduce::WrongWay>},
    {"forgets_the_rest", "WhatDoesNotDivideIsSummedToo", "together all 7", reduce_wrongly<WrongReduce::Forgets>},
    {"skips_empty", "ThereMayBeFewerNumbersThanRanks", "never sends", reduce_wrongly<WrongReduce::SkipsEmpty>},
    {"own_order", "AllRanksHaveTheSameBits", "is to be summed once", reduce_wrongly<WrongReduce::OwnOrder>},
    {"whole_array", "ARankSendsItsArrayLessThanTwice", "Send the chunk alone", reduce_wrongly<WrongReduce::WholeArray>},
};

}  // namespace

void all_reduce(Floats& x, const Ring& ring) { chosen(kReduceMistakes, reduce_wrongly<WrongReduce::None>)(x, ring); }

}  // namespace folio::exercises
