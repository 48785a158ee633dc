#include <algorithm>
#include <stdexcept>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  KeysForValues,
  LengthForgotten,
  WrittenAtR,
  OrderOfRows,
  LengthForCapacity,
  OneRow,
  NotBelowZero,
  OwnCount
};

template <Wrong kWrong>
void append_to(KvCache& cache, const Floats& k, const Floats& v) {
  using enum Wrong;
  static size_t own_count = 0;
  if (cache.length == 0) own_count = 0;
  const size_t heads = cache.n_kv_heads, dim = cache.head_dim, n = kWrong == OneRow ? 1 : k.size() / (heads * dim);
  // NotBelowZero imitates the check `capacity - length - n < 0`, which is always false for a size_t.
  if (kWrong != NotBelowZero && cache.length + n > cache.capacity) throw std::length_error("full");
  const size_t first = kWrong == WrittenAtR ? 0 : kWrong == OwnCount ? own_count : cache.length;
  for (size_t r = 0; r < n; ++r) {
    for (size_t head = 0; head < heads; ++head) {
      const size_t t = first + r;
      const size_t stride = kWrong == LengthForCapacity ? cache.length + 1 : cache.capacity;
      const size_t place = (kWrong == OrderOfRows ? t * heads + head : head * stride + t) * dim;
      std::copy_n(k.data() + (r * heads + head) * dim, dim, cache.keys.data() + place % cache.keys.size());
      std::copy_n((kWrong == KeysForValues ? k : v).data() + (r * heads + head) * dim, dim,
                  cache.values.data() + place % cache.keys.size());
    }
  }
  own_count += n;
  if (kWrong != LengthForgotten) cache.length += n;
}

// Appends correctly, then writes one element past the end of the keys if the cache is full.
void one_past_the_end(KvCache& cache, const Floats& k, const Floats& v) {
  append_to<Wrong::None>(cache, k, v);
  if (cache.length == cache.capacity) cache.keys.data()[cache.keys.size()] = 0.0F;
}

const std::vector<Mistake<decltype(append)>> kMistakes{
    {"keys_for_values", "APositionIsWritten", "1 and 2 are the keys", append_to<Wrong::KeysForValues>},
    {"length_forgotten", "TheNextPositionFollows", "the length counts them", append_to<Wrong::LengthForgotten>},
    {"written_at_r", "TheNextPositionFollows", "instead of at length + r", append_to<Wrong::WrittenAtR>},
    {"order_of_rows", "AHeadsPositionsLieSideBySide", "in which the rows come", append_to<Wrong::OrderOfRows>},
    {"length_for_capacity", "AHeadsPositionsLieSideBySide", "the heads move", append_to<Wrong::LengthForCapacity>},
    {"one_row", "SeveralRowsAreAsOneAfterTheOther", "comes in one step", append_to<Wrong::OneRow>},
    {"not_below_zero", "WhatDoesNotFitIsRefused", "is never true", append_to<Wrong::NotBelowZero>},
    {"one_past_the_end", "WhatDoesNotFitIsRefused", "writes past the end of an array", one_past_the_end},
    {"own_count", "AShorterLengthIsWrittenOver", "no count of one's own", append_to<Wrong::OwnCount>},
};

}  // namespace

void append(KvCache& cache, const Floats& k, const Floats& v) {
  chosen(kMistakes, append_to<Wrong::None>)(cache, k, v);
}

}  // namespace folio::exercises
