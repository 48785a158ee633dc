#include "train/profile/profile.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/train/support.h"

namespace folio::train {
namespace {

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

}  // namespace
}  // namespace folio::train
