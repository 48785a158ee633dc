// Tests of an attention head: the uses of wq, wk and wv, matrices that aren't square, the scale, and the causal mask.
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

TEST(Head, OnePositionGetsItsValue) {
  expect_close(
      head({1.0F, 10.0F}, {1.0F, 0.0F, 0.0F, 1.0F}, {1.0F, 0.0F, 0.0F, 1.0F}, {1.0F, 2.0F, 3.0F, 4.0F}, 1, 2),
      {21.0F, 43.0F}, 1e-5,
      "One position has all weight, so it gets its own value: wv x, with the rows (1, 2) and (3, 4) of wv. 1 and 10 is "
      "x itself, without wv. 31 and 42 is what the columns of wv give.");
}

TEST(Head, AMatrixNeedNotBeSquare) {
  expect_close(
      head({1.0F, 10.0F, 100.0F}, Floats(6, 0.0F), Floats(6, 0.0F), {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, 1, 3),
      {321.0F, 654.0F}, 1e-4,
      "A vector of D = 3 numbers becomes one of K = 2. A row of a matrix has D numbers, so row i begins at i * D and "
      "not at i * K.");
}

TEST(Head, QueriesAskAndKeysAnswer) {
  // Two vectors, (1, 0) and (0, 1). Only the first element of each query, key and value is nonzero.
  const Floats x{1.0F, 0.0F, 0.0F, 1.0F}, second{0.0F, 1.0F, 0.0F, 0.0F}, first{1.0F, 0.0F, 0.0F, 0.0F};
  const Floats by_ln3{0.0F, static_cast<float>(std::log(3.0) * std::sqrt(2.0)), 0.0F, 0.0F};
  expect_close(
      {head(x, by_ln3, second, second, 2, 2)[2]}, {0.75F}, 1e-6,
      "Position 1 asks with ln 3 sqrt(2) and finds the keys 0 and 1, so its scores are 0 and ln 3 and its weights 1/4 "
      "and 3/4. The values are 0 and 1.");
  expect_close(
      {head(x, first, by_ln3, second, 2, 2)[2]}, {0.5F}, 1e-6,
      "Now the query of position 1 is 0, and equal scores give equal weights. 0.25 is what comes out where wq and wk "
      "are mixed up.");
}

TEST(Head, TheRootIsThatOfTheHeadsWidth) {
  const auto ln3 = static_cast<float>(std::log(3.0));
  const Floats y = head({1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F}, {0.0F, ln3, 0.0F, 0.0F},
                        {0.0F, 1.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 0.0F, 0.0F}, 2, 4);
  expect_close(
      {y[1]}, {0.75F}, 1e-6,
      "A query has K = 1 numbers, though the vectors have D = 4: the score ln 3 is divided by sqrt(K) = 1. 0.634 is "
      "what sqrt(D) gives.");
}

TEST(Head, ALaterPositionChangesNothing) {
  Floats x = random_floats(9, 1);
  const Floats w = random_floats(6, 2);
  const Floats before = head(x, w, w, w, 3, 3);
  x[8] += 5.0F;
  const Floats after = head(x, w, w, w, 3, 3);
  expect_close(
      {after.begin(), after.begin() + 4}, {before.begin(), before.begin() + 4}, 0.0,
      "The vector of position 2 was changed, and an earlier position noticed it. Each query, key and value is made of "
      "the vector of its own position: row t begins at t * D in x, and at t * K in the result.");
}

}  // namespace
}  // namespace folio::exercises
