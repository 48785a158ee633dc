// Tests of the gradients of a matrix product: single elements, accumulation, shapes, and central differences.
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

Floats floats(const Doubles& x) { return {x.begin(), x.end()}; }

TEST(TapeRule, AFactorsGradientIsTheOtherFactor) {
  Doubles da{0.0}, db{0.0};
  matmul_rule({2.0}, {3.0}, {10.0}, 1, 1, 1, da, db);
  expect_close(
      floats({da[0], db[0]}), {30.0F, 20.0F}, 0.0,
      "da and db of 2 times 3, with dy = 10. If a rises by 1, y rises by b = 3, and the loss by 3 dy. 20 and 30 are "
      "the two mixed up; 3 and 2 forget dy.");
}

TEST(TapeRule, GradientsAreAdded) {
  Doubles da{1.0}, db{100.0};
  matmul_rule({2.0}, {3.0}, {10.0}, 1, 1, 1, da, db);
  expect_close(floats({da[0], db[0]}), {31.0F, 120.0F}, 0.0,
               "1 and 100 were there, from another use of a and b, and have to stay: += and not =.");
}

TEST(TapeRule, AnInputGetsASumOverAllThatItReaches) {
  // 1 row, inner size 1, 2 columns: y = (a b_0, a b_1).
  Doubles da{0.0}, db{0.0, 0.0};
  matmul_rule({2.0}, {3.0, 5.0}, {10.0, 100.0}, 1, 1, 2, da, db);
  expect_close(floats({da[0], db[0], db[1]}), {530.0F, 20.0F, 200.0F}, 0.0,
               "a is in both outputs: 10 * 3 + 100 * 5. 500 is the last term alone.");
}

TEST(TapeRule, RowsAreAsLongAsTheirMatrix) {
  Doubles da(4, 0.0), db(2, 0.0);
  matmul_rule({2.0, 4.0, 6.0, 8.0}, {3.0, 5.0}, {10.0, 1.0}, 2, 2, 1, da, db);
  expect_close(floats({da[0], da[1], da[2], da[3], db[0], db[1]}), {30.0F, 50.0F, 3.0F, 5.0F, 26.0F, 48.0F}, 0.0,
               "The four numbers of da and the two of db. A row of a has `inner` numbers, and one of b and of dy has "
               "`columns`.");
}

TEST(TapeRule, EqualsCentralDifferences) {
  constexpr size_t kRows = 3, kInner = 4, kColumns = 2;
  const auto doubles = [](size_t n, uint64_t seed) {
    const Floats x = random_floats(n, seed);
    return Doubles(x.begin(), x.end());
  };
  Doubles a = doubles(kRows * kInner, 1), b = doubles(kInner * kColumns, 2);
  const Doubles dy = doubles(kRows * kColumns, 3);
  const auto loss = [&] {  // a loss whose gradient with respect to y is dy
    double sum = 0.0;
    for (size_t at = 0; at < kRows * kInner * kColumns; ++at) {
      const size_t r = at / (kInner * kColumns), i = at / kColumns % kInner, c = at % kColumns;
      sum += dy[r * kColumns + c] * a[r * kInner + i] * b[i * kColumns + c];
    }
    return sum;
  };
  Doubles da(a.size(), 0.0), db(b.size(), 0.0);
  matmul_rule(a, b, dy, kRows, kInner, kColumns, da, db);
  const auto check = [&](Doubles& x, const Doubles& dx, const std::string& name) {
    for (size_t i = 0; i < x.size(); ++i) {
      // The loss is linear in each element, so the central difference is exact up to rounding.
      const double before = x[i];
      x[i] = before + 1.0;
      const double above = loss();
      x[i] = before - 1.0;
      const double below = loss();
      x[i] = before;
      expect_close({static_cast<float>(dx[i])}, {static_cast<float>((above - below) / 2.0)}, 1e-6,
                   "This is number " + std::to_string(i) + " of " + name + ", of a product of (3, 4) and (4, 2).");
    }
  };
  check(a, da, "da");
  check(b, db, "db");
}

}  // namespace
}  // namespace folio::exercises
