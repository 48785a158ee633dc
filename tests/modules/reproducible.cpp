// Starts every test with the same seed, independent of the tests before it, and with one thread, since its tensors are
// small and other tests run at the same time.
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
