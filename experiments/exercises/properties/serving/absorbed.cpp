// Tests of latent attention in the absorbed form: the absorbed query, the scores, the values, and equality with the
// plain form.
#include <cmath>
#include <numeric>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

// Returns a head with rank 6, nope = rope = 2 and v_dim 1. W_k's rows are (1, …, 6) and (7, …, 12); W_v selects element
// 1 of a latent.
LatentAttention small_head() {
  LatentAttention a{.n_heads = 1, .rank = 6, .nope = 2, .rope = 2, .v_dim = 1, .wk = Floats(12), .wv = Floats(6, 0.0F)};
  std::iota(a.wk.begin(), a.wk.end(), 1.0F);
  a.wv[1] = 1.0F;
  return a;
}

// Computes latent attention in the plain form, in double: computes a key and a value for each position and head.
Floats plain_form(const LatentAttention& a, const Floats& q, const Floats& cache) {
  const size_t width = a.rank + a.rope, positions = cache.size() / width, q_dim = a.nope + a.rope;
  Floats y;
  for (size_t h = 0; h < a.n_heads; ++h) {
    const float* q_h = q.data() + h * q_dim;
    const Floats turned = rotated(Floats(q_h + a.nope, q_h + q_dim), positions - 1);
    std::vector<double> outputs(a.v_dim, 0.0);
    double sum = 0.0;
    for (size_t t = 0; t < positions; ++t) {
      const float* entry = cache.data() + t * width;
      const auto of_latent = [&](const Floats& w, size_t row) {
        return std::inner_product(entry, entry + a.rank, w.data() + row * a.rank, 0.0);
      };
      double score = 0.0;
      for (size_t n = 0; n < a.nope; ++n) score += q_h[n] * of_latent(a.wk, h * a.nope + n);
      for (size_t r = 0; r < a.rope; ++r) score += static_cast<double>(turned[r]) * entry[a.rank + r];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(q_dim)));
      sum += weight;
      for (size_t v = 0; v < a.v_dim; ++v) outputs[v] += weight * of_latent(a.wv, h * a.v_dim + v);
    }
    for (const double output : outputs) y.push_back(static_cast<float>(output / sum));
  }
  return y;
}

TEST(Absorbed, TheKeysMatrixMovesToTheQuery) {
  expect_close(
      absorbed_query(small_head(), 0, {1.0F, 10.0F, 0.0F, 0.0F}, 0),
      {71.0F, 82.0F, 93.0F, 104.0F, 115.0F, 126.0F, 0.0F, 0.0F}, 1e-4,
      "W_k is (1 2 3 4 5 6; 7 8 9 10 11 12), with a row of rank numbers for each number of the key. Its transpose "
      "times (1, 10) begins with 1 + 70 = 71. 21 = 1 + 20 reads W_k as if it were stored transposed.");
}

TEST(Absorbed, TheOtherPartIsRotated) {
  expect_close(
      absorbed_query(small_head(), 0, {0.0F, 0.0F, 1.0F, 0.0F}, 1),
      {0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.5403023F, 0.8414710F}, 1e-5,
      "(1, 0) at position 1 is rotated by the angle 1. RoPE depends on the position, so it cannot be absorbed in "
      "a matrix: the query is still to be rotated here. Its angles are those of a vector of rope numbers, not "
      "of nope + rope.");
}

TEST(Absorbed, LatentsAreNotRotated) {
  expect_close(absorbed_query(small_head(), 0, {1.0F, 10.0F, 0.0F, 0.0F}, 3),
               {71.0F, 82.0F, 93.0F, 104.0F, 115.0F, 126.0F, 0.0F, 0.0F}, 1e-4,
               "The part for latents has no rotation: at position 3 it is what it is at position 0.");
}

TEST(Absorbed, AHeadHasItsOwnMatrix) {
  LatentAttention a = small_head();
  a.n_heads = 2;
  for (size_t i = 0; i < 12; ++i) a.wk.push_back(100.0F * static_cast<float>(i + 1));
  expect_close(absorbed_query(a, 1, {1.0F, 0.0F, 0.0F, 0.0F}, 0),
               {100.0F, 200.0F, 300.0F, 400.0F, 500.0F, 600.0F, 0.0F, 0.0F}, 1e-3,
               "The second head. Its matrix begins at head * nope * rank.");
}

TEST(Absorbed, TheScaleIsThatOfThePlainForm) {
  const auto score = static_cast<float>(2.0 * std::log(3.0));
  const LatentAttention a = small_head();
  expect_close(
      attend_to_latents(a, {1.0F, 0.0F, 0.0F, 0.0F}, {0, 0, 0, 0, 0, 0, 0, 0, score - 8.0F, 4.0F, 0, 0, 0, 0, 0, 0}),
      {3.0F}, 1e-4,
      "The products of query and entries are 0 and 2 ln 3. Divided by √(nope + rope) = 2 they have the weights "
      "1/4 and 3/4 of 0 and 4. The absorbed query is longer, rank + rope = 8 numbers, but its products are "
      "those of the plain form, and so is the scale.");
}

TEST(Absorbed, LargeScoresStayFinite) {
  expect_close(
      attend_to_latents(small_head(), {1.0F, 0.0F, 0.0F, 0.0F}, {200.0F, 3.0F, 0, 0, 0, 0, 0, 0}), {3.0F}, 1e-4,
      "A single position has the weight 1, however large its score. exp(103) is infinite in floats: subtract the "
      "largest score first.");
}

TEST(Absorbed, RotatedPartsHaveAShareInTheScore) {
  const auto length = static_cast<float>(2.0 * std::log(3.0));
  const LatentAttention a = small_head();
  expect_close(
      attend_to_latents(a, {0.0F, 0.0F, 1.0F, 0.0F},
                        {0, 0, 0, 0, 0, 0, 0, 0,  //
                         0, 4.0F, 0, 0, 0, 0, 0.5403023F * length, 0.8414710F * length}),
      {3.0F}, 1e-4,
      "Latents have no share in these scores, but the rotated parts: their product is 2 ln 3 at the last entry, "
      "which gives the weight 3/4. The query is at position positions - 1, that of the last entry.");
}

TEST(Absorbed, TheValuesMatrixComesLast) {
  LatentAttention a = small_head();
  a.v_dim = 2;
  a.wv = a.wk;
  expect_close(
      attend_to_latents(a, {1.0F, 1.0F, 1.0F, 1.0F}, {1.0F, 0, 0, 0, 0, 10.0F, 5.0F, 5.0F}), {61.0F, 127.0F}, 1e-4,
      "A single position has the weight 1. Its value is W_v c, with v_dim rows of rank numbers: 1 + 60 = 61. 111 "
      "reads W_v transposed. The rotated part is no part of a value.");
}

TEST(Absorbed, AbsorbedEqualsPlain) {
  const LatentAttention a{.n_heads = 3,
                          .rank = 8,
                          .nope = 5,
                          .rope = 4,
                          .v_dim = 6,
                          .wk = random_floats(3 * 5 * 8, 1),
                          .wv = random_floats(3 * 6 * 8, 2)};
  const Floats q = random_floats(3 * 9, 3), cache = random_floats(7 * 12, 4);
  expect_close(attend_to_latents(a, q, cache), plain_form(a, q, cache), 1e-5,
               "3 heads, 7 positions, against keys and values that are computed. With one head it is right: does each "
               "head read the first head's W_v, or another head's query?");
}

}  // namespace
}  // namespace folio::exercises
