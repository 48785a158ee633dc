// Tests of direct logit attribution: the shares of the embedding and of each branch in a token's logit.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

// Returns a Readout with dim 2 for two tokens. Norm weights are 1, eps is 0, and the output matrix is (1 0; 0 1).
Readout plain_readout() { return {.weight = {1.0F, 1.0F}, .eps = 0.0F, .output = {1.0F, 0.0F, 0.0F, 1.0F}}; }

TEST(Attribution, TheNormDivides) {
  expect_close(attribution({{3.0F, 4.0F}}, plain_readout(), 0, 0), {0.848528F}, 1e-5,
               "An embedding (3, 4) without any branch: rms = √((9 + 16) / 2) = 3.536, and 3 / 3.536 = 0.849. 3 is the "
               "product without the norm, and 0.6 divides by √25: the squares are averaged.");
}

TEST(Attribution, TheNormsWeightsMultiply) {
  Readout readout = plain_readout();
  readout.weight = {2.0F, 1.0F};
  expect_close(attribution({{3.0F, 4.0F}}, readout, 0, 0), {1.69706F}, 1e-5,
               "As before with the norm's weights (2, 1): each element d is multiplied by weight[d].");
}

TEST(Attribution, ABranchIsWhatItAdds) {
  expect_close(attribution({{1.0F, 0.0F}, {3.0F, 4.0F}}, plain_readout(), 0, 0), {0.282843F, 0.565685F}, 1e-5,
               "The branch added (3, 4) - (1, 0) = (2, 4), and both shares are divided by 3.536, the rms of the last "
               "stream. 1.414 and 0.632 come from a norm of each part by itself, which can't be summed; 0.849 from "
               "the whole stream after the branch in place of the difference.");
}

TEST(Attribution, ABranchCountsOnce) {
  expect_close(attribution({{1.0F, 0.0F}, {2.0F, 1.0F}, {3.0F, 4.0F}}, plain_readout(), 0, 0),
               {0.282843F, 0.282843F, 0.282843F}, 1e-5,
               "Attention added (1, 1), and the feed-forward network (1, 3). If the third share is 0.566, attention is "
               "in it a second time: subtract the stream right before the branch, not the layer's input.");
}

TEST(Attribution, TheRowIsTheOneAskedFor) {
  expect_close(attribution({{0.0F, 1.0F, 1.0F, 0.0F}, {3.0F, 4.0F, 2.0F, 0.0F}}, plain_readout(), 0, 0),
               {0.0F, 0.848528F}, 1e-5,
               "Two rows, and the first is asked for. 0.707 is a share of the second: every stream has its row at "
               "row * dim.");
}

TEST(Attribution, TheTokenHasARowOfTheOutput) {
  Readout readout = plain_readout();
  readout.output = {1.0F, 2.0F, 3.0F, 4.0F};
  expect_close(attribution({{1.0F, 1.0F}}, readout, 0, 1), {7.0F}, 1e-5,
               "The output matrix has the rows (1, 2) and (3, 4), one for each token. The stream (1, 1) has the rms 1, "
               "so token 1 has 3 + 4. 6 is the sum of a column, and 3 that of token 0.");
}

TEST(Attribution, SharesSumToTheLogit) {
  constexpr size_t dim = 12, n_rows = 3, n_tokens = 7;
  std::vector<Floats> stream;
  for (uint64_t i = 0; i < 5; ++i) stream.push_back(random_floats(n_rows * dim, i));
  const Readout readout{.weight = random_floats(dim, 5), .eps = 0.5F, .output = random_floats(n_tokens * dim, 6)};
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t token = 0; token < n_tokens; ++token) {
      double squares = 0.0, product = 0.0, sum = 0.0;
      for (size_t d = 0; d < dim; ++d) {
        const double x = stream.back()[row * dim + d];
        squares += x * x;
        product += x * readout.weight[d] * readout.output[token * dim + d];
      }
      for (const float share : attribution(stream, readout, row, token)) sum += share;
      expect_close(
          {static_cast<float>(sum)}, {static_cast<float>(product / std::sqrt(squares / dim + readout.eps))}, 1e-5,
          "The sum of the shares of an embedding and four branches, random, and the logit by the formula, with "
          "eps = 0.5. Without eps the sum is too far from 0.");
    }
  }
}

}  // namespace
}  // namespace folio::exercises
