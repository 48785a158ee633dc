// Tests of RoPE: what a rotation preserves, which elements form a pair, and the angles.
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

constexpr float kTheta = 10000.0F;

Floats turned(Floats x, size_t position, size_t n_heads = 1, float theta = kTheta) {
  rope(x.data(), position, n_heads, x.size() / n_heads, theta);
  return x;
}

double dot(const Floats& a, const Floats& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(Rope, PositionZeroChangesNothing) {
  const Floats x{1.0F, 2.0F, 3.0F, 4.0F};
  expect_close(
      turned(x, 0), x, 1e-6,
      "Positions are counted from 0, so the angles of the first one are all 0. NaN: the exponent -2i / head_dim was "
      "computed of a size_t, which has no negative numbers: -2 * i is 2^64 - 2i, and theta to that power is infinite.");
}

TEST(Rope, LengthsAreKept) {
  const Floats x{1.0F, 2.0F, 3.0F, 4.0F};
  const Floats y = turned(x, 1);
  expect_close({static_cast<float>(dot(y, y))}, {static_cast<float>(dot(x, x))}, 1e-4,
               "Turning a vector does not change its length; this is its square. Two mistakes do: a wrong sign (there "
               "is one minus, before b sin), and a first number that was overwritten before the second one was "
               "computed from it.");
}

TEST(Rope, NeighboursArePairs) {
  const Floats y = turned({1.0F, 1.0F, 0.0F, 0.0F}, 1);
  expect_close({y[2], y[3]}, {0.0F, 0.0F}, 1e-6,
               "The pair (0, 1) turned into numbers 2 and 3. The pairs are (0, 1), (2, 3), … here; other models pair "
               "number i with number i + head_dim / 2, the halves of the head.");
}

TEST(Rope, TheFirstPairTurnsByThePosition) {
  for (const size_t position : {1, 2, 3}) {
    const Floats y = turned({1.0F, 0.0F, 0.0F, 0.0F}, position);
    expect_close({y[0]}, {static_cast<float>(std::cos(static_cast<double>(position)))}, 1e-5,
                 "This is cos(angle) of pair 0 at position " + std::to_string(position) +
                     ". Its angle is the position itself, in radians, since theta^0 is 1. The paper counts pairs from "
                     "1 and writes theta^(-2(i - 1) / head_dim); with i from 0, its i - 1 is i.");
  }
}

TEST(Rope, TurnsFromTheFirstNumberTowardsTheSecond) {
  const Floats y = turned({1.0F, 0.0F, 0.0F, 0.0F}, 1);
  expect_close({y[1]}, {static_cast<float>(std::sin(1.0))}, 1e-5,
               "(1, 0) turns towards (0, 1). A negative number here means that the pair turns backwards: the minus "
               "belongs to the first number, a cos - b sin.");
}

TEST(Rope, LaterPairsTurnSlower) {
  const Floats y = turned({0.0F, 0.0F, 1.0F, 0.0F}, 1);
  expect_close({y[3]}, {static_cast<float>(std::sin(0.01))}, 1e-5,
               "This is sin(angle) of pair 1 of 2 at position 1, with theta 10000: the angle is 10000^(-2/4) = 0.01. "
               "0.841 is sin(1): all pairs turn alike. In C++ the quotient of whole numbers, 2 * i / head_dim, is 0 "
               "for every pair: "
               "make both float first. 0.0998 is sin(0.1): the 2 of the exponent -2i / head_dim is "
               "missing.");
}

TEST(Rope, ThetaIsAParameter) {
  const Floats y = turned({0.0F, 0.0F, 1.0F, 0.0F}, 1, 1, 100.0F);
  expect_close({y[3]}, {static_cast<float>(std::sin(0.1))}, 1e-5,
               "With theta 100 the angle of pair 1 of 2 is 100^(-2/4) = 0.1. 0.01 is what a fixed 10000 gives.");
}

TEST(Rope, EveryHeadTurnsAlike) {
  const Floats head{1.0F, 2.0F, 3.0F, 4.0F};
  const Floats y = turned({1.0F, 2.0F, 3.0F, 4.0F, 1.0F, 2.0F, 3.0F, 4.0F}, 5, 2);
  expect_close({y.begin() + 4, y.end()}, {y.begin(), y.begin() + 4}, 1e-6,
               "Two equal heads became different ones. i counts the pairs of one head, and begins at 0 in each.");
}

// Tolerance: computed in floats, the angle position * theta^(-2i / head_dim) has a rounding error below
// (position + 1) * 2^-21. A score sums 8 products.
TEST(Rope, ScoresDependOnlyOnDistance) {
  const Floats q = random_floats(8, 1);
  const Floats k = random_floats(8, 2);
  const double score = dot(turned(q, 3), turned(k, 0));
  for (const size_t position : {1, 10, 254, 500}) {
    expect_close({static_cast<float>(dot(turned(q, position + 3), turned(k, position)))}, {static_cast<float>(score)},
                 8.0 * static_cast<double>(position + 4) * 0x1p-21,
                 "A query three positions behind a key has the same score wherever they stand. Here the key is at "
                 "position " +
                     std::to_string(position) + "; perhaps a table of angles ends before.");
  }
}

TEST(Rope, EqualsTheReference) {
  for (const size_t head_dim : {2, 6, 32, 64}) {
    for (const size_t position : {0, 1, 31, 300}) {
      const Floats x = random_floats(3 * head_dim, position);
      Floats expected = x;
      reference::rope(expected.data(), position, 3, head_dim, 500.0F);
      expect_close(turned(x, position, 3, 500.0F), expected, static_cast<double>(position + 4) * 0x1p-21,
                   "Three heads of " + std::to_string(head_dim) + " numbers at position " + std::to_string(position) +
                       ", theta 500.");
    }
  }
}

}  // namespace
}  // namespace folio::exercises
