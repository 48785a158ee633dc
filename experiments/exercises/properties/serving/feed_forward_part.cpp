// Tests of a feed-forward layer split over ranks: each rank's part, and the sum of the ranks' outputs.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

FeedForward random_layer(size_t dim, size_t hidden, bool has_bias) {
  return {.dim = dim,
          .hidden = hidden,
          .w1 = random_floats(hidden * dim, 1),
          .w2 = random_floats(dim * hidden, 2),
          .bias = has_bias ? random_floats(dim, 3) : Floats(dim, 0.0F)};
}

// Expects that the outputs of all ranks' parts sum to the whole layer's output.
void expect_sum_of_parts(const FeedForward& whole, size_t n_ranks, const std::string& why) {
  const Floats x = random_floats(whole.dim, 4);
  Floats sum(whole.dim, 0.0F);
  for (size_t rank = 0; rank < n_ranks; ++rank) {
    const Floats part = output_of(part_of(whole, rank, n_ranks), x);
    ASSERT_EQ(part.size(), whole.dim) << "A rank's output has all numbers of y: its part is of the sum in each.";
    for (size_t i = 0; i < whole.dim; ++i) sum[i] += part[i];
  }
  expect_close(sum, output_of(whole, x), 1e-5, why);
}

TEST(FeedForwardPart, OneRankHasTheWholeLayer) {
  const FeedForward layer{.dim = 1, .hidden = 2, .w1 = {1.0F, -1.0F}, .w2 = {3.0F, 4.0F}, .bias = {10.0F}};
  expect_close(output_of(part_of(layer, 0, 1), {2.0F}), {16.0F}, 1e-6,
               "w1 x is (2, -2), and its relu (2, 0); 3 * 2 + 4 * 0 + 10 = 16. 8 has no relu, and 6 no bias.");
}

TEST(FeedForwardPart, MatricesLieRowByRow) {
  // w1 = (1 2; 3 4; 5 6), w2 = (1 10 100; 1000 10000 100000)
  const FeedForward layer{
      .dim = 2, .hidden = 3, .w1 = {1, 2, 3, 4, 5, 6}, .w2 = {1, 10, 100, 1000, 10000, 100000}, .bias = {0, 0}};
  expect_close(
      output_of(layer, {1.0F, 0.0F}), {531.0F, 531000.0F}, 1e-1,
      "The hidden numbers are 1, 3 and 5, the first column of w1, whose rows have dim numbers. In y they are the "
      "digits: 531 and 531000. w2 has rows of hidden numbers.");
}

TEST(FeedForwardPart, ARankHasItsShareAlone) {
  const FeedForward part = part_of(random_layer(3, 8, false), 1, 4);
  EXPECT_EQ(part.dim, 3U) << "x and y have as many numbers as before.";
  EXPECT_EQ(part.hidden, 2U) << "8 hidden numbers, 4 ranks: 2 at each.";
  EXPECT_EQ(part.w1.size(), 6U) << "2 rows of w1 with 3 numbers: what others have is not copied.";
  EXPECT_EQ(part.w2.size(), 6U) << "2 columns of w2 with 3 numbers: what others have is not copied.";
}

TEST(FeedForwardPart, TheSumOfTwoIsTheLayer) {
  expect_sum_of_parts(
      random_layer(3, 4, false), 2,
      "2 ranks, without a bias. Either both have the same hidden numbers, or of w2 a rank got rows, which "
      "lie together, in place of columns.");
}

TEST(FeedForwardPart, TheBiasIsInTheSumOnce) {
  expect_sum_of_parts(random_layer(3, 4, true), 2,
                      "2 ranks, with a bias: it has to be in the sum once, not at each rank.");
}

TEST(FeedForwardPart, TheSumOfFourIsTheLayer) {
  expect_sum_of_parts(
      random_layer(5, 12, true), 4,
      "4 ranks. With 2 it is right: is there a 2 in place of n_ranks, or the first and the other half?");
}

}  // namespace
}  // namespace folio::exercises
