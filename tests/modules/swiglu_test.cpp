// Tests modules/swiglu.h: the properties of SwiGLU (properties/swiglu_properties.h) and errors.
#include "modules/swiglu.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/modules/properties/swiglu_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, SwiGlu, nn::SwiGLU);

TEST(SwiGluModule, RejectsOtherSizes) {
  nn::SwiGLU ffn(4, 10);
  expect_error([&] { ffn->forward(torch::zeros({2, 3, 5})); }, {"SwiGLU", "[B, T, 4]", "Float [2, 3, 5]"});
  expect_error([&] { ffn->forward(torch::zeros({2, 4})); }, {"[B, T, 4]", "Float [2, 4]"});
  expect_error([] { nn::SwiGLU(4, 0); }, {"dim is 4 and hidden_dim is 0", ">= 1"});
}

}  // namespace
}  // namespace folio::test
