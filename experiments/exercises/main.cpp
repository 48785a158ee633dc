// Runs the laws of an exercise in their order, up to the first that fails, and shows why it does. The exit code is 1 if
// one fails. All of GoogleTest's flags work: --gtest_fail_fast=0 goes on after a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

namespace {

constexpr size_t kWidth = 110;

// Words until a line is full, each line behind an indent.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string out = indent;
    for (std::string word; words >> word;) {
      if (out.size() > indent.size() && out.size() + word.size() > kWidth) {
        result += out + "\n";
        out = indent;
      }
      out += (out.size() > indent.size() ? " " : "") + word;
    }
    result += out + "\n";
  }
  return result;
}

class Printer : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { message_.clear(); }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || !message_.empty()) return;  // the first message of a law is enough
    message_ = result.message();
    const size_t frames = message_.find("\nException raised from ");  // LibTorch's, of its own code
    if (frames != std::string::npos) message_.erase(frames, message_.find("\" thrown in", frames) - frames);
    strip("Failed\n", "");
    strip("C++ exception with description \"", "\" thrown in the test body.");  // a hint, for example
  }

  void OnTestEnd(const testing::TestInfo& law) override {
    if (law.result()->Skipped()) return;
    std::printf("  %s  %s\n", law.result()->Passed() ? "holds" : "FAILS", law.name());
    if (law.result()->Passed()) return;
    std::printf("%s", wrapped(message_, "         ").c_str());
    const std::string file = law.file();
    const size_t at = std::min(file.rfind("experiments/exercises/"), file.rfind("tests/modules/"));
    std::printf("         (%s:%d)\n", file.substr(std::min(at, file.size())).c_str(), law.line());
  }

  void OnTestProgramEnd(const testing::UnitTest& all) override {
    std::printf("%d of %d laws hold\n", all.successful_test_count(), all.test_to_run_count());
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
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // if a law crashes, the ones before it were shown
  testing::GTEST_FLAG(fail_fast) = true;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Printer);
  return RUN_ALL_TESTS();
}
