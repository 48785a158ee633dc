// Tests modules/swiglu.h: the properties of SwiGLU (properties/swiglu_properties.h), its parameters, and errors.
#include "modules/swiglu.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "tests/modules/properties/swiglu_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, SwiGlu, nn::SwiGLU);

TEST(SwiGluModule, HasExactlyThreeMatrices) {
  nn::SwiGLU ffn(4, 10);
  const auto parameters = ffn->named_parameters();
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters["w1.weight"].sizes(), (std::vector<int64_t>{10, 4}));
  EXPECT_EQ(parameters["w2.weight"].sizes(), (std::vector<int64_t>{4, 10}));
  EXPECT_EQ(parameters["w3.weight"].sizes(), (std::vector<int64_t>{10, 4}));
}

TEST(SwiGluModule, RejectsOtherSizes) {
  nn::SwiGLU ffn(4, 10);
  expect_error([&] { ffn->forward(torch::zeros({2, 3, 5})); }, {"SwiGLU", "[B, T, 4]", "Float [2, 3, 5]"});
  expect_error([&] { ffn->forward(torch::zeros({2, 4})); }, {"[B, T, 4]", "Float [2, 4]"});
  expect_error([] { nn::SwiGLU(4, 0); }, {"dim is 4 and hidden_dim is 0", ">= 1"});
}

}  // namespace
}  // namespace folio::test
