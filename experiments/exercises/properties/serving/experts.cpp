// Tests of a mixture of experts: which experts are selected, their weights, and one run per expert on all its rows.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

std::string experts_in(const std::vector<Route>& routes) {
  std::string all;
  for (const Route& r : routes) all += (all.empty() ? "" : ", ") + std::to_string(r.expert);
  return all;
}

void expect_experts(const Floats& logits, size_t n_chosen, const std::string& expected, const std::string& why) {
  EXPECT_EQ(experts_in(route(logits, n_chosen)), expected) << why;
}

Floats weights_of(const std::vector<Route>& routes) {
  Floats weights;
  for (const Route& r : routes) weights.push_back(r.weight);
  return weights;
}

// Computes the tests' stand-in for an expert: multiplies the rows by expert + 1.
Floats times(size_t expert, const Floats& rows) {
  Floats out = rows;
  for (float& number : out) number *= static_cast<float>(expert + 1);
  return out;
}

TEST(Experts, TheLargestLogitsAreChosen) {
  expect_experts({0.0F, 1.0F, 5.0F, 3.0F}, 2, "2, 3", "Experts 2 and 3 have the logits 5 and 3, the largest.");
}

TEST(Experts, TheyComeInTheOrderOfTheirNumbers) {
  expect_experts({3.0F, 1.0F, 5.0F}, 2, "0, 2",
                 "Sorted by their logits they would be 2, 0: sort the chosen by number.");
}

TEST(Experts, OfEqualLogitsTheFirstIsChosen) {
  expect_experts(
      {0.0F, 2.0F, 2.0F, 2.0F}, 2, "1, 2",
      "Three have the logit 2, and the first two of them are taken. A sort that is not stable, or >= in place "
      "of >, takes others.");
  expect_experts(Floats(64, 2.0F), 2, "0, 1",
                 "Of 64 equal logits the first two are taken. std::sort keeps the order of equals only in short lists; "
                 "std::stable_sort always does.");
}

TEST(Experts, WeightsSumToOne) {
  float sum = 0.0F;
  for (const float weight : weights_of(route({1.0F, 2.0F, 3.0F, 4.0F}, 2))) sum += weight;
  expect_close(
      {sum}, {1.0F}, 1e-6,
      "The sum of two weights. 0.88 is what two of four experts have of a softmax over all four: divide by the "
      "sum of the chosen ones.");
}

TEST(Experts, WeightsAreOfASoftmax) {
  expect_close(
      weights_of(route({0.0F, std::log(3.0F), -5.0F, std::log(2.0F)}, 2)), {0.6F, 0.4F}, 1e-6,
      "exp of the logits, 3 and 2, over 3 + 2. 0.61 comes from logits that are divided by their sum without exp, "
      "and 0.5 from weights that are all alike.");
}

TEST(Experts, LargeLogitsStayFinite) {
  expect_close(weights_of(route({1000.0F, 1000.0F, 0.0F}, 2)), {0.5F, 0.5F}, 1e-6,
               "exp(1000) is infinite, and infinite / infinite is NaN: take the largest logit from each before exp.");
}

TEST(Experts, ARowIsTheWeightedSumOfItsExperts) {
  const Floats y = combine({1.0F, 10.0F}, 2, {{{0, 0.25F}, {2, 0.75F}}}, 3, times);
  expect_close(y, {2.5F, 25.0F}, 1e-6,
               "0.25 * 1 * x + 0.75 * 3 * x = 2.5 x. 4 x is the sum without weights; 2.25 x is the last expert alone.");
}

TEST(Experts, EachRowGetsItsOwnOutput) {
  const Floats y = combine({1.0F, 10.0F, 100.0F}, 1, {{{1, 1.0F}}, {{0, 1.0F}}, {{1, 1.0F}}}, 2, times);
  expect_close(
      y, {2.0F, 10.0F, 200.0F}, 1e-6,
      "Rows 0 and 2 took expert 1, which doubles, and row 1 took expert 0. An expert's outputs belong to the rows "
      "that were collected for it, which are not the first ones of x.");
}

TEST(Experts, AnExpertIsRunOnceOnAllOfItsRows) {
  std::vector<size_t> runs(3, 0);
  const RunExpert counted = [&](size_t expert, const Floats& rows) {
    ++runs.at(expert);
    return times(expert, rows);
  };
  static_cast<void>(combine({1.0F, 2.0F, 3.0F}, 1, {{{0, 1.0F}}, {{0, 0.5F}, {2, 0.5F}}, {{2, 1.0F}}}, 3, counted));
  EXPECT_EQ(runs[0], 1U) << "Two rows chose expert 0: collect them, and run it once.";
  EXPECT_EQ(runs[2], 1U) << "Two rows chose expert 2: collect them, and run it once.";
}

TEST(Experts, AnExpertThatNobodyChoseIsNotRun) {
  const RunExpert counted = [&](size_t expert, const Floats& rows) {
    EXPECT_FALSE(rows.empty()) << "Expert " << expert << " was run without a row: leave it out.";
    return times(expert, rows);
  };
  static_cast<void>(combine({1.0F}, 1, {{{1, 1.0F}}}, 3, counted));
}

TEST(Experts, NoRowIsDropped) {
  const std::vector<std::vector<Route>> routes(8, {{1, 1.0F}});
  expect_close(combine(Floats(8, 1.0F), 1, routes, 4, times), Floats(8, 2.0F), 1e-6,
               "All eight rows chose expert 1. Some programs give each expert room for a fixed number of rows, and the "
               "rows beyond lose it; here none does.");
}

TEST(Experts, EqualEachRowAlone) {
  constexpr size_t n = 20, dim = 3, n_experts = 5;
  const Floats x = random_floats(n * dim, 1), logits = random_floats(n * n_experts, 2);
  std::vector<std::vector<Route>> routes;
  Floats expected;
  for (size_t i = 0; i < n; ++i) {
    routes.push_back(route({logits.begin() + i * n_experts, logits.begin() + (i + 1) * n_experts}, 2));
    const Floats alone =
        combine({x.begin() + i * dim, x.begin() + (i + 1) * dim}, dim, {routes.back()}, n_experts, times);
    expected.insert(expected.end(), alone.begin(), alone.end());
  }
  expect_close(combine(x, dim, routes, n_experts, times), expected, 1e-6, "20 random rows, together and one by one.");
}

}  // namespace
}  // namespace folio::exercises
