// Tests that wrong uses of the tape of the study 14_tape are errors. The study itself tests the tape's gradients.
#include <gtest/gtest.h>

#include <vector>

#include "experiments/14_tape/operations.h"
#include "tests/core/support.h"

namespace folio::tape {
namespace {

using core::test::error_of;

TEST(Tape, ReusedValuesAccumulateTheirGradient) {
  Tape tape;
  const Tensor x = tape.leaf("x", {}, {3.0});
  tape.backward(x * x + x);
  EXPECT_EQ(x.gradient()[0], 7.0);
}

TEST(Tape, UnusedEntriesGetNoGradient) {
  Tape tape;
  const Tensor x = tape.leaf("x", {}, {3.0}), y = tape.leaf("y", {}, {5.0});
  const Tensor aside = x * y;
  tape.backward(x + x);
  EXPECT_EQ(x.gradient()[0], 2.0);
  EXPECT_EQ(y.gradient()[0], 0.0);
  EXPECT_EQ(aside.gradient()[0], 0.0);
}

TEST(Tape, AllowsOneBackwardPass) {
  Tape tape;
  const Tensor x = tape.leaf("x", {}, {3.0});
  tape.backward(x * x);
  EXPECT_EQ(error_of([&] { tape.backward(x * x); }),
            "backward: this tape has its gradients already; record the next loss on a new tape");
  Tape other;
  const Tensor y = other.leaf("y", {}, {1.0});
  EXPECT_EQ(error_of([&] { static_cast<void>(x * y); }), "×: an input is on another tape");
}

TEST(Tape, RejectsMismatchedShapes) {
  Tape tape;
  const Tensor a = tape.leaf("a", {2, 3, 4}, Values(24)), b = tape.leaf("b", {1, 3, 4}, Values(12));
  const std::vector<int32_t> ids{0, 7};
  EXPECT_EQ(error_of([&] { static_cast<void>(a + b); }), "+: [2, 3, 4] and [1, 3, 4] don't fit each other");
  EXPECT_EQ(error_of([&] { static_cast<void>(matmul(a, b)); }), "matmul: [2, 3, 4] and [1, 3, 4] don't fit each other");
  EXPECT_EQ(error_of([&] { static_cast<void>(look_up(b, ids)); }), "look_up: ids must be in [0, 3), but one is 7");
  EXPECT_EQ(error_of([&] { static_cast<void>(cross_entropy(b, ids)); }),
            "cross_entropy: 2 targets for the logits [1, 3, 4]");
  EXPECT_EQ(error_of([&] { tape.backward(a); }), "backward: the loss must be one number, but is [2, 3, 4]");
  EXPECT_EQ(error_of([&] { tape.leaf("c", {1, 1, 3}, {1.0}); }), "leaf c: 1 values for the shape [1, 1, 3]");
}

}  // namespace
}  // namespace folio::tape
