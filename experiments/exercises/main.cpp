// Runs the tests of an exercise in order, stops at the first failure and explains it. Exits with 1 if a test fails.
// Tests run in a child process, so that a crash counts as a failure and is explained, too. Accepts GoogleTest's flags;
// --gtest_fail_fast=0 continues after a failure. --each runs the tests once per line of stdin.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/exercises/asan_options.h"
#include "experiments/exercises/crash.h"
#include "experiments/exercises/plain_words.h"

namespace {

// Progress of the child process that runs the tests, in memory shared with the parent: the current test's name and
// source location, the number of passed tests, and the number of tests to run.
struct Progress {
  char property[120], file[400];
  int line, n_held, n_properties;
  bool finished;
};

constexpr size_t kWidth = 110;

// Wraps text to kWidth columns and indents each line.
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

void print_failure(const char* property, const std::string& message, const std::string& file, int line) {
  std::printf("  FAILS  %s\n%s", property, wrapped(message, "         ").c_str());
  const size_t at = std::min(file.rfind("experiments/"), file.rfind("tests/modules/"));
  std::printf("         (%s:%d)\n", file.substr(std::min(at, file.size())).c_str(), line);
}

class Printer : public testing::EmptyTestEventListener {
 public:
  explicit Printer(Progress& progress) : progress_(progress) {}

 private:
  void OnTestProgramStart(const testing::UnitTest& all) override { progress_.n_properties = all.test_to_run_count(); }

  void OnTestStart(const testing::TestInfo& property) override {
    message_.clear();
    std::snprintf(progress_.property, sizeof progress_.property, "%s", property.name());
    std::snprintf(progress_.file, sizeof progress_.file, "%s", property.file());
    progress_.line = property.line();
    alarm(60);
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || !message_.empty()) return;  // only the first message of a test is shown
    message_ = result.message();
    const std::string before = "C++ exception with description \"";
    if (message_.starts_with(before)) {  // keep only the exception's message, without LibTorch's stack trace
      message_.erase(0, before.size());
      message_.resize(
          std::min({message_.find("\nException raised from "), message_.rfind("\" thrown in"), message_.size()}));
    }
    message_ = folio::exercises::in_plain_words(message_);
  }

  void OnTestEnd(const testing::TestInfo& property) override {
    if (property.result()->Skipped()) return;
    if (property.result()->Failed()) return print_failure(property.name(), message_, property.file(), property.line());
    std::printf("  holds  %s\n", property.name());
    ++progress_.n_held;
  }

  void OnTestProgramEnd(const testing::UnitTest& all) override {
    std::printf("%d of %d properties hold\n", all.successful_test_count(), all.test_to_run_count());
  }

  Progress& progress_;
  std::string message_;
};

int run_properties(int argc, char** argv, Progress& progress) {
  testing::GTEST_FLAG(fail_fast) = true;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Printer(progress));
  const int code = RUN_ALL_TESTS();
  progress.finished = true;
  return code;
}

// Runs the selected tests in a child process, reports a crash or timeout of the child, and returns the exit code.
int judge(int argc, char** argv) {
  void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int errors[2];  // a pipe from the child's stderr
  if (memory == MAP_FAILED || pipe(errors) != 0) return std::perror("exercise"), 2;
  auto& progress = *new (memory) Progress{};
  const pid_t child = fork();
  if (child < 0) return std::perror("exercise"), 2;
  if (child == 0) {
    dup2(errors[1], STDERR_FILENO);
    close(errors[0]);
    const int code = run_properties(argc, argv, progress);
    std::fflush(nullptr);
    std::_Exit(code);  // skips LibTorch's slow destructors
  }
  close(errors[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(errors[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(errors[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool crashed = !progress.finished && progress.property[0] != '\0';
  const size_t own = crashed ? folio::exercises::report_begins(text) : text.size();
  std::fprintf(stderr, "%s", text.substr(0, own).c_str());
  if (!crashed) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  const std::string words = folio::exercises::crash_in_words(text, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  print_failure(progress.property, words, progress.file, progress.line);
  std::printf("%d of %d properties hold\n", progress.n_held, progress.n_properties);
  return 1;
}

// Runs the tests once per line of stdin in one process, because LibTorch takes a second to load. Each line has the name
// of a mistake (the value of FOLIO_MISTAKE), a space, and a GoogleTest flag. Each run's output ends with "exit CODE".
int judge_each(char* program) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string mistake, flag;
    std::getline(words, mistake, ' ');
    std::getline(words, flag);
    setenv("FOLIO_MISTAKE", mistake.c_str(), 1);
    char* arguments[] = {program, flag.data(), nullptr};
    const int code = judge(2, arguments);
    std::printf("exit %d\n", code);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // line-buffered, so that a crash loses no output
  if (argc == 2 && std::strcmp(argv[1], "--each") == 0) return judge_each(argv[0]);
  return judge(argc, argv);
}
