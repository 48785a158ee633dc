#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "tests/core/support.h"
#include "train/run/run_directory.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::test::read_bytes;
using core::test::TempDir;
using core::test::write_bytes;

TEST(RunLock, RemovesItsFile) {
  const TempDir run;
  { const RunLock lock = lock_run(run.path()); }
  EXPECT_TRUE(fs::is_empty(run.path()));
  EXPECT_NO_THROW(static_cast<void>(lock_run(run.path())));
}

TEST(RunLock, KilledProcessesReleaseTheLock) {
  const TempDir run;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock = lock_run(run.path());
    static_cast<void>(!::write(ready[1], "x", 1));
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_ERROR(lock_run(run.path()),
               fmt::format("{}: the run is being trained by process {};", run.path().string(), child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(run / ".lock"));
  EXPECT_NO_THROW(static_cast<void>(lock_run(run.path())));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLock, LockFileAloneDoesNotLock) {
  const TempDir run;
  write_bytes(run / ".lock", "123456789");
  const RunLock lock = lock_run(run.path());
  EXPECT_EQ(read_bytes(run / ".lock"), std::to_string(::getpid()));
}

// Starts `ls` as a child process and returns its listing of its own open files.
std::string files_open_in_a_program() {
  std::string lines;
  FILE* output = ::popen("ls -l /proc/self/fd", "r");
  for (int c = 0; (c = std::fgetc(output)) != EOF;) lines.push_back(static_cast<char>(c));
  ::pclose(output);
  return lines;
}

TEST(RunLock, IsNotInheritedByChildPrograms) {
  const TempDir run;
  const RunLock lock = lock_run(run.path());
  const int inherited = ::open((run / "inherited").c_str(), O_CREAT | O_RDWR, 0600);
  const std::string files = files_open_in_a_program();
  ::close(inherited);
  EXPECT_NE(files.find((run / "inherited").string()), std::string::npos) << files;
  EXPECT_EQ(files.find((run / ".lock").string()), std::string::npos) << files;
}

TEST(RunLock, NamesUnwritablePaths) {
  const TempDir run;
  EXPECT_ERROR(lock_run(run / "none"), "none/.lock: No such file or directory");
}

}  // namespace
}  // namespace folio::train
