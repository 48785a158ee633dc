// Tests of attention: softmax weights, causal mask, scaled scores, separate and shared heads, and large scores.
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

Floats attended(const Floats& q, const Floats& k, const Floats& v, const AttentionShape& shape) {
  Floats out(q.size(), -99.0F);
  attention(q.data(), k.data(), v.data(), shape, out.data());
  return out;
}

AttentionShape shape(size_t n_queries, size_t n_positions, size_t n_heads = 1, size_t n_kv_heads = 1,
                     size_t head_dim = 2) {
  return {.n_queries = n_queries,
          .n_positions = n_positions,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim};
}

TEST(Attention, OnePositionGivesItsOwnValue) {
  expect_close(attended({1.0F, 2.0F}, {3.0F, 1.0F}, {5.0F, -7.0F}, shape(1, 1)), {5.0F, -7.0F}, 1e-5,
               "With one position there is one weight, and it is 1. 0 or NaN: the position does not see itself, but a "
               "query sees its own position, too. Other numbers: the scores did not go through the softmax, or its "
               "exponentials were not divided by their sum.");
}

TEST(Attention, TheWeightsOfAQuerySumToOne) {
  expect_close(attended({1.0F, 2.0F, 0.0F, -1.0F, 3.0F, 1.0F}, {3.0F, 1.0F, 0.5F, 0.0F, -1.0F, 2.0F}, Floats(6, 1.0F),
                        shape(3, 3)),
               Floats(6, 1.0F), 1e-5,
               "All values are 1, so every weighted sum of them is. Where it isn't, the softmax was taken over the "
               "wrong axis: the weights of a key over the queries, instead of those of a query over the keys.");
}

TEST(Attention, EqualKeysGiveTheMeanOfTheValues) {
  expect_close(attended({1.0F, 2.0F}, {1.0F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F},
                        {1.0F, 0.0F, 2.0F, 4.0F, 3.0F, 0.0F, 6.0F, 0.0F}, shape(1, 4)),
               {3.0F, 1.0F}, 1e-5,
               "One query is the last of four positions, and sees all four. If it gives the first value, the mask "
               "counts from the first query instead of from its position, n_positions - n_queries + r.");
}

TEST(Attention, ALaterTokenChangesNoEarlierOutput) {
  const Floats q = random_floats(6, 1);
  Floats k = random_floats(6, 2);
  Floats v = random_floats(6, 3);
  const Floats before = attended(q, k, v, shape(3, 3));
  for (const size_t d : {4, 5}) {  // elements of the last position
    k[d] += 1.0F;
    v[d] += 10.0F;
  }
  const Floats after = attended(q, k, v, shape(3, 3));
  expect_close(
      {after.begin(), after.begin() + 2}, {before.begin(), before.begin() + 2}, 1e-6,
      "The key and value of position 2 were changed, and position 0 noticed it: the mask is missing. The "
      "query at position t sees the positions 0 to t. (A mask that asks whether t - j < 0 hides nothing: a size_t is "
      "never below 0. Ask whether j > t.)");
  expect_close({after.begin() + 2, after.begin() + 4}, {before.begin() + 2, before.begin() + 4}, 1e-6,
               "The key and value of position 2 were changed, and position 1 noticed it: the mask is off by one. The "
               "query at position t sees the positions 0 to t, and not t + 1.");
}

TEST(Attention, ScoresAreDividedByTheRootOfTheHeadsWidth) {
  const auto expected = static_cast<float>(std::exp(1.0) / (1.0 + std::exp(1.0)));
  const Floats y = attended({2.0F, 0.0F, 0.0F, 0.0F}, {1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F},
                            {1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F}, shape(1, 2, 1, 1, 4));
  expect_close({y[0]}, {expected}, 1e-5,
               "Heads of 4 numbers, dot products 2 and 0: the scores are 1 and 0. 0.881 is what scores of 2 and 0 "
               "give, without 1 / sqrt(head_dim), and 0.622 what a division by head_dim itself gives.");
}

TEST(Attention, HeadsDoNotMix) {
  Floats q = random_floats(12, 1);
  Floats k = random_floats(12, 2);
  Floats v = random_floats(12, 3);
  const auto of_head_0 = [&] {
    const Floats y = attended(q, k, v, shape(3, 3, 2, 2));
    return Floats{y[0], y[1], y[4], y[5], y[8], y[9]};
  };
  const Floats before = of_head_0();
  for (const size_t i : {2, 3, 6, 7, 10, 11}) {  // elements of head 1
    q[i] += 1.0F;
    k[i] += 2.0F;
    v[i] += 3.0F;
  }
  expect_close(of_head_0(), before, 1e-6,
               "Queries, keys and values of head 1 were changed, and head 0 noticed it. The heads of a position lie "
               "side by side: head h of position j begins at (j * n_heads + h) * head_dim.");
}

TEST(Attention, TheRootIsThatOfOneHead) {
  const auto expected = static_cast<float>(std::exp(1.0) / (1.0 + std::exp(1.0)));
  Floats q(8, 0.0F), k(16, 0.0F), v(16, 0.0F);  // two heads of 4 elements
  q[0] = 2.0F;
  k[0] = v[0] = 1.0F;
  expect_close({attended(q, k, v, shape(1, 2, 2, 2, 4))[0]}, {expected}, 1e-5,
               "Two heads of 4 numbers: scores are divided by sqrt(head_dim) = 2. 0.670 is what the width of all heads "
               "together gives, sqrt(n_heads * head_dim) = sqrt(8).");
}

TEST(Attention, NeighbouringQueryHeadsShareAKeyHead) {
  const Floats y = attended(random_floats(8, 1), random_floats(4, 2), {1.0F, 1.0F, 2.0F, 2.0F}, shape(1, 1, 4, 2));
  expect_close(y, {1.0F, 1.0F, 1.0F, 1.0F, 2.0F, 2.0F, 2.0F, 2.0F}, 1e-5,
               "Four query heads read two value heads, the first full of 1, the second of 2: heads 0 and 1 read the "
               "first, 2 and 3 the second. 1, 2, 1, 2 is what h % n_kv_heads gives, where h / (n_heads / n_kv_heads) "
               "is asked for.");
}

TEST(Attention, LargeScoresStayFinite) {
  const Floats v{1.0F, 2.0F, 3.0F, 4.0F};
  expect_close(attended({100.0F, 0.0F}, {100.0F, 0.0F, 0.0F, 0.0F}, v, shape(1, 2)), {1.0F, 2.0F}, 1e-5,
               "A score of 7071 has all weight. exp(7071) is infinite in floats, and infinite / infinite is NaN: "
               "subtract the largest score from all of them first.");
  const Floats y = attended({100.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, 100.0F, 0.0F}, v, shape(2, 2));
  expect_close({y[0], y[1]}, {1.0F, 2.0F}, 1e-5,
               "The score of 7071 is that of a later position, which query 0 does not see: the largest score is the "
               "largest of those that the query sees.");
}

// Tolerance: a score sums head_dim products below 1 and is divided by sqrt(head_dim), so its error, and the relative
// error of each weight, is below head_dim^1.5 * 2^-24. The weighted sum adds the rounding errors of at most 71 terms.
TEST(Attention, EqualsTheReference) {
  for (const AttentionShape& s : {shape(1, 1), shape(5, 5, 4, 2, 6), shape(3, 70, 6, 1, 16), shape(40, 71, 3, 3, 8)}) {
    const Floats q = random_floats(s.n_queries * s.n_heads * s.head_dim, 1);
    const Floats k = random_floats(s.n_positions * s.n_kv_heads * s.head_dim, 2);
    const Floats v = random_floats(s.n_positions * s.n_kv_heads * s.head_dim, 3);
    Floats expected(q.size());
    reference::attention(q.data(), k.data(), v.data(), s, expected.data());
    const double units =
        4.0 * std::pow(static_cast<double>(s.head_dim), 1.5) + 2.0 * static_cast<double>(s.n_positions);
    expect_close(attended(q, k, v, s), expected, units * 0x1p-24,
                 std::to_string(s.n_queries) + " queries, " + std::to_string(s.n_positions) + " positions, " +
                     std::to_string(s.n_heads) + " and " + std::to_string(s.n_kv_heads) + " heads of " +
                     std::to_string(s.head_dim) + " random numbers.");
  }
}

}  // namespace
}  // namespace folio::exercises
