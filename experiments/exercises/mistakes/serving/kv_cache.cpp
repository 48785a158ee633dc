// The mistakes, each with the test that must fail first and words of its message:
//     keys_for_values: APositionIsWritten: 1 and 2 are the keys
//     length_forgotten: TheNextPositionFollows: the length counts them
//     written_at_r: TheNextPositionFollows: instead of at length + r
//     order_of_rows: AHeadsPositionsLieSideBySide: in which the rows come
//     length_for_capacity: AHeadsPositionsLieSideBySide: the heads move
//     one_row: SeveralRowsAreAsOneAfterTheOther: comes in one step
//     not_below_zero: WhatDoesNotFitIsRefused: is never true
//     refused_halfway: WhatDoesNotFitIsRefused: before the first one is written
//     one_past_the_end: WhatDoesNotFitIsRefused: writes past the end of an array
//     own_count: AShorterLengthIsWrittenOver: no count of one's own
#include <algorithm>
#include <stdexcept>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void append(KvCache& cache, const Floats& k, const Floats& v) {
  static size_t own_count = 0;
  if (cache.length == 0) own_count = 0;
  const size_t heads = cache.n_kv_heads, dim = cache.head_dim, n = wrong("one_row") ? 1 : k.size() / (heads * dim);
  // "not_below_zero" imitates the check `capacity - length - n < 0`, which is always false for a size_t.
  const auto require_place = [&](size_t rows) {
    if (!wrong("not_below_zero") && cache.length + rows > cache.capacity) throw std::length_error("full");
  };
  if (!wrong("refused_halfway")) require_place(n);
  const size_t first = wrong("written_at_r") ? 0 : wrong("own_count") ? own_count : cache.length;
  for (size_t r = 0; r < n; ++r) {
    require_place(r + 1);
    for (size_t head = 0; head < heads; ++head) {
      const size_t t = first + r;
      const size_t stride = wrong("length_for_capacity") ? cache.length + 1 : cache.capacity;
      const size_t place = (wrong("order_of_rows") ? t * heads + head : head * stride + t) * dim;
      std::copy_n(k.data() + (r * heads + head) * dim, dim, cache.keys.data() + place % cache.keys.size());
      std::copy_n((wrong("keys_for_values") ? k : v).data() + (r * heads + head) * dim, dim,
                  cache.values.data() + place % cache.keys.size());
    }
  }
  own_count += n;
  if (!wrong("length_forgotten")) cache.length += n;
  if (wrong("one_past_the_end") && cache.length == cache.capacity) cache.keys.data()[cache.keys.size()] = 0.0F;
}

}  // namespace folio::exercises
