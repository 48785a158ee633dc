// Runs the laws of an exercise in their order, up to the first that fails, and shows why it does. The exit code is 1 if
// one fails. They run in a child process, so that a crash is the failure of a law, too, and is told in words. All of
// GoogleTest's flags work: --gtest_fail_fast=0 goes on after a failure. With --each, the tests ask for many runs at
// once.
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

// How far the child came: in memory that the parent sees, too.
struct Progress {
  char law[120], file[400];
  int line, n_held, n_laws;
  bool finished;
};

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

// A law's verdict, and why.
void print_failure(const char* law, const std::string& message, const std::string& file, int line) {
  std::printf("  FAILS  %s\n%s", law, wrapped(message, "         ").c_str());
  const size_t at = std::min(file.rfind("experiments/exercises/"), file.rfind("tests/modules/"));
  std::printf("         (%s:%d)\n", file.substr(std::min(at, file.size())).c_str(), line);
}

class Printer : public testing::EmptyTestEventListener {
 public:
  explicit Printer(Progress& progress) : progress_(progress) {}

 private:
  void OnTestProgramStart(const testing::UnitTest& all) override { progress_.n_laws = all.test_to_run_count(); }

  void OnTestStart(const testing::TestInfo& law) override {
    message_.clear();
    std::snprintf(progress_.law, sizeof progress_.law, "%s", law.name());
    std::snprintf(progress_.file, sizeof progress_.file, "%s", law.file());
    progress_.line = law.line();
    alarm(60);
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || !message_.empty()) return;  // the first message of a law is enough
    message_ = result.message();
    const size_t frames = message_.find("\nException raised from ");  // LibTorch's, of its own code
    if (frames != std::string::npos) message_.erase(frames, message_.find("\" thrown in", frames) - frames);
    strip("C++ exception with description \"", "\" thrown in the test body.");  // a hint, for example
    message_ = folio::exercises::in_plain_words(message_);
  }

  void OnTestEnd(const testing::TestInfo& law) override {
    if (law.result()->Skipped()) return;
    if (law.result()->Failed()) return print_failure(law.name(), message_, law.file(), law.line());
    std::printf("  holds  %s\n", law.name());
    ++progress_.n_held;
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

  Progress& progress_;
  std::string message_;
};

int run_laws(int argc, char** argv, Progress& progress) {
  testing::GTEST_FLAG(fail_fast) = true;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Printer(progress));
  const int code = RUN_ALL_TESTS();
  progress.finished = true;
  return code;
}

// Runs the laws that the arguments ask for in a child process, says what it did not come to say, and gives the exit
// code.
int judge(int argc, char** argv) {
  void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int errors[2];  // a pipe: what the child writes to stderr
  if (memory == MAP_FAILED || pipe(errors) != 0) return std::perror("exercise"), 2;
  auto& progress = *new (memory) Progress{};
  const pid_t child = fork();
  if (child < 0) return std::perror("exercise"), 2;
  if (child == 0) {
    dup2(errors[1], STDERR_FILENO);
    close(errors[0]);
    const int code = run_laws(argc, argv, progress);
    std::fflush(nullptr);
    std::_Exit(code);  // what LibTorch would take down, piece by piece, goes with the process
  }
  close(errors[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(errors[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(errors[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool crashed = !progress.finished && progress.law[0] != '\0';
  const size_t own = crashed ? folio::exercises::report_begins(text) : text.size();
  std::fprintf(stderr, "%s", text.substr(0, own).c_str());
  if (!crashed) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  const std::string words = folio::exercises::crash_in_words(text, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  print_failure(progress.law, words, progress.file, progress.line);
  std::printf("%d of %d laws hold\n", progress.n_held, progress.n_laws);
  return 1;
}

// Many runs in one process, since LibTorch takes a second to load. Each line of stdin has a mistake, a space, and a
// flag of GoogleTest. "exit CODE" ends what a run prints.
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
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // if a law crashes, the ones before it were shown
  if (argc == 2 && std::strcmp(argv[1], "--each") == 0) return judge_each(argv[0]);
  return judge(argc, argv);
}
