#include "train/step/repeatable.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace folio::train {
namespace {

TEST(Repeatable, FixesTheGivenOrDefaultThreadCount) {
  const int before = at::get_num_threads();
  fix_threads(2);
  EXPECT_EQ(at::get_num_threads(), 2);
  fix_threads(0);
  EXPECT_EQ(at::get_num_threads(), 2);
  fix_threads(before);
}

TEST(Repeatable, ReportsLibTorchBuildsThatMayNotRepeat) {
  EXPECT_EQ(why_not_repeatable("cpu", "Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release", false), "");
  EXPECT_EQ(why_not_repeatable("cpu", "Build settings: BLAS_INFO=generic, X", /*openblas=*/true), "");
  for (const char* config : {"BLAS_INFO=accelerate, BUILD_TYPE=Release", "BLAS_INFO=accelerate"}) {
    EXPECT_NE(why_not_repeatable("cpu", config, false).find("\"accelerate\""), std::string::npos);
  }
  EXPECT_NE(why_not_repeatable("cpu", "", false).find("\"unknown\""), std::string::npos);
  EXPECT_NE(why_not_repeatable("cuda", "BLAS_INFO=mkl,", false).find("CUDA"), std::string::npos);
}

}  // namespace
}  // namespace folio::train
