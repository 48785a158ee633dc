// RMSNorm: its laws, and what it refuses.
#include "modules/rms_norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/modules/laws/rms_norm_laws.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, RmsNorm, nn::RMSNorm);

TEST(RmsNormModule, RefusesOtherSizes) {
  nn::RMSNorm norm(8);
  expect_error([&] { norm->forward(torch::zeros({2, 3, 7})); }, {"RMSNorm", "[..., 8]", "Float [2, 3, 7]"});
  expect_error([&] { norm->forward(torch::tensor(1.0F)); }, {"[..., 8]", "Float []"});
  expect_error([] { nn::RMSNorm(0); }, {"at least 1", "0"});
  expect_error([] { nn::RMSNorm(4, -1.0); }, {"at least 0", "-1"});
}

}  // namespace
}  // namespace folio::test
