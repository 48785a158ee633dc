// Seeds the random numbers before each test, so that a test doesn't depend on those before it, and sets one thread,
// since tensors are small and other tests run at the same time.
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
