// Tests of append: where keys and values are stored, several rows at once, a full cache, and a shortened length.
#include <stdexcept>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

KvCache cache_of(size_t n_kv_heads, size_t capacity, size_t head_dim) {
  return {.n_kv_heads = n_kv_heads, .capacity = capacity, .head_dim = head_dim};
}

TEST(KvCache, APositionIsWritten) {
  KvCache cache = cache_of(1, 2, 2);
  append(cache, {1.0F, 2.0F}, {3.0F, 4.0F});
  expect_close(cache.keys, {1.0F, 2.0F, 0.0F, 0.0F}, 0.0, "These are the keys, with k = (1, 2) at position 0 of 2.");
  expect_close(cache.values, {3.0F, 4.0F, 0.0F, 0.0F}, 0.0,
               "These are the values, with v = (3, 4). 1 and 2 are the keys.");
}

TEST(KvCache, TheNextPositionFollows) {
  KvCache cache = cache_of(1, 3, 1);
  append(cache, {1.0F}, {2.0F});
  append(cache, {3.0F}, {4.0F});
  EXPECT_EQ(cache.length, 2U) << "Two positions were appended; the length counts them.";
  expect_close(
      cache.keys, {1.0F, 3.0F, 0.0F}, 0.0,
      "The second position comes behind the first. If it overwrote it, the length did not grow, or the rows were "
      "written at r instead of at length + r.");
}

TEST(KvCache, AHeadsPositionsLieSideBySide) {
  KvCache cache = cache_of(2, 4, 1);
  append(cache, {1.0F, 10.0F}, {0.0F, 0.0F});
  append(cache, {2.0F, 20.0F}, {0.0F, 0.0F});
  expect_close(
      cache.keys, {1.0F, 2.0F, 0.0F, 0.0F, 10.0F, 20.0F, 0.0F, 0.0F}, 0.0,
      "Head 0 has the first half of the cache: 1 2 . ., and head 1 the second: 10 20 . .. 1 10 2 20 is the order in "
      "which the rows come. Head h of position t begins at (h * capacity + t) * head_dim; with `length` in the place "
      "of "
      "`capacity` the heads move when the sequence grows.");
}

TEST(KvCache, SeveralRowsAreAsOneAfterTheOther) {
  const Floats k = random_floats(3 * 2 * 4, 1), v = random_floats(3 * 2 * 4, 2);
  KvCache together = cache_of(2, 5, 4), by_one = cache_of(2, 5, 4);
  append(together, k, v);
  for (size_t r = 0; r < 3; ++r) {
    const auto row = [&](const Floats& x) { return Floats(x.begin() + r * 8, x.begin() + (r + 1) * 8); };
    append(by_one, row(k), row(v));
  }
  EXPECT_EQ(together.length, 3U) << "Three rows were appended at once: a prompt comes in one step.";
  expect_close(together.keys, by_one.keys, 0.0, "Three rows at once have to be what they are one by one.");
  expect_close(together.values, by_one.values, 0.0, "Three rows at once have to be what they are one by one.");
}

TEST(KvCache, WhatDoesNotFitIsRefused) {
  KvCache cache = cache_of(1, 2, 2);
  append(cache, {1.0F, 2.0F}, {3.0F, 4.0F});
  EXPECT_THROW(append(cache, {5.0F, 6.0F, 7.0F, 8.0F}, Floats(4)), std::length_error)
      << "One place is left, and two rows come. With size_t, capacity - length - n_rows < 0 is never true: ask whether "
         "length + n_rows > capacity.";
  EXPECT_EQ(cache.length, 1U) << "What is refused changes nothing.";
  expect_close(cache.keys, {1.0F, 2.0F, 0.0F, 0.0F}, 0.0,
               "What is refused changes nothing: ask whether all rows fit before the first one is written.");
  append(cache, {5.0F, 6.0F}, {7.0F, 8.0F});
  expect_close(cache.keys, {1.0F, 2.0F, 5.0F, 6.0F}, 0.0, "One row still fits: the last place may be used, too.");
}

TEST(KvCache, AShorterLengthIsWrittenOver) {
  KvCache cache = cache_of(1, 3, 1);
  append(cache, {1.0F, 2.0F, 3.0F}, {0.0F, 0.0F, 0.0F});
  cache.length = 1;  // as after rejected draft tokens
  append(cache, {4.0F}, {0.0F});
  expect_close(
      cache.keys, {1.0F, 4.0F, 3.0F}, 0.0,
      "The length was set back to 1, and the next row goes to position 1. It is `length` that says where to write, and "
      "no count of one's own.");
}

}  // namespace
}  // namespace folio::exercises
