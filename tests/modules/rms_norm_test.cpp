// Tests modules/rms_norm.h: the properties of RMSNorm (properties/rms_norm_properties.h), and errors.
#include "modules/rms_norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/modules/properties/rms_norm_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, RmsNorm, nn::RMSNorm);

TEST(RmsNormModule, RejectsOtherSizes) {
  nn::RMSNorm norm(8);
  expect_error([&] { norm->forward(torch::zeros({2, 3, 7})); }, {"RMSNorm", "[..., 8]", "Float [2, 3, 7]"});
  expect_error([&] { norm->forward(torch::tensor(1.0F)); }, {"[..., 8]", "Float []"});
  expect_error([] { nn::RMSNorm(0); }, {"dim is 0", "dim >= 1"});
  expect_error([] { nn::RMSNorm(4, -1.0); }, {"eps is -1", "eps >= 0"});
}

}  // namespace
}  // namespace folio::test
