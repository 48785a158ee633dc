// Every test begins with the same seed, so that its numbers don't depend on which tests ran before it, and runs on one
// thread: its tensors are small, and tests run beside each other.
#include <gtest/gtest.h>
#include <torch/utils.h>

namespace folio::test {
namespace {

class Reproducible : public testing::EmptyTestEventListener {
  void OnTestProgramStart(const testing::UnitTest&) override { torch::set_num_threads(1); }
  void OnTestStart(const testing::TestInfo&) override { torch::manual_seed(1); }
};

const bool kInstalled = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Reproducible);
  return true;
}();

}  // namespace
}  // namespace folio::test
