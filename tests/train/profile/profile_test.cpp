#include "train/profile/profile.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/train/support.h"

namespace folio::train {
namespace {

TEST(Profile, AttentionIsCountedAsTheMaskAllows) {
  core::ModelConfig c = preset("tiny").model;  // 4 layers, 4 heads of 32
  EXPECT_EQ(attention_operations(c, 256), 4 * 7.0 * 128 * 257);
  c.n_tokens_ahead = 1;
  EXPECT_EQ(attention_operations(c, 256), 5 * 7.0 * 128 * 257);
  c.sliding_window = 32;  // 32 keys for each query, less 0 + … + 31 for the first ones
  EXPECT_EQ(attention_operations(c, 256), 5 * 7.0 * 128 * 2 * (256 * 32 - 31 * 16) / 256);
}

TEST(Profile, HasThePartsOfTheRecordedSteps) {
  const int before = at::get_num_threads();
  test::Small small;
  const std::string table = profile_steps(small.trainer, 5);
  at::set_num_threads(before);
  EXPECT_EQ(small.trainer.state().step, 3 + 5 + 5) << "warm-up, unprofiled and recorded steps";
  const auto milliseconds = [&](const std::string& part) {
    const size_t at = table.find("\n" + part + "  ");
    return at == std::string::npos ? -1.0 : std::stod(table.substr(at + 27));
  };
  for (const char* part : {"matrix products", "attention", "loss", "clipping, optimizer"}) {
    EXPECT_GE(milliseconds(part), 0.0) << part << "\n" << table;
    EXPECT_LT(milliseconds(part), milliseconds("a step")) << part << "\n" << table;
  }
  EXPECT_GT(milliseconds("matrix products"), 0.0) << table;
}

TEST(Profile, AttentionByItsFormulaIsPartOfTheProducts) {
  const int before = at::get_num_threads();
  TrainConfig c = test::small_config();
  c.fused = false;
  test::Small small(c);
  const std::string table = profile_steps(small.trainer, 1);
  at::set_num_threads(before);
  EXPECT_EQ(table.find("inf"), std::string::npos) << table;
}

}  // namespace
}  // namespace folio::train
