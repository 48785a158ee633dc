// Runs the laws of an exercise in their order, up to the first that fails, and shows why it does. The exit code is 1 if
// one fails. All of GoogleTest's flags work: --gtest_fail_fast=0 goes on after a failure.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

class Printer : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { message_.clear(); }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || !message_.empty()) return;  // the first message of a law is enough
    message_ = result.message();
    strip("Failed\n", "");
    strip("C++ exception with description \"", "\" thrown in the test body.");  // a hint, for example
    for (size_t at = message_.find('\n'); at != std::string::npos; at = message_.find('\n', at + 1)) {
      message_.replace(at, 1, "\n         ");
    }
    if (result.file_name() != nullptr)
      where_ = std::string(result.file_name()) + ":" + std::to_string(result.line_number());
  }

  void OnTestEnd(const testing::TestInfo& law) override {
    if (law.result()->Skipped()) return;
    std::printf("  %s  %s\n", law.result()->Passed() ? "holds" : "FAILS", law.name());
    if (!message_.empty()) std::printf("         %s\n", message_.c_str());
  }

  void OnTestProgramEnd(const testing::UnitTest& all) override {
    std::printf("%d of %d laws hold", all.successful_test_count(), all.test_to_run_count());
    std::printf(where_.empty() ? "\n" : "; the one that fails: %s\n", where_.c_str());
  }

  // Takes a beginning and an end off the message, if it has both.
  void strip(const std::string& begin, const std::string& end) {
    if (message_.size() < begin.size() + end.size() || message_.compare(0, begin.size(), begin) != 0 ||
        message_.compare(message_.size() - end.size(), end.size(), end) != 0) {
      return;
    }
    message_ = message_.substr(begin.size(), message_.size() - begin.size() - end.size());
  }

  std::string message_;
  std::string where_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::GTEST_FLAG(fail_fast) = true;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Printer);
  return RUN_ALL_TESTS();
}
