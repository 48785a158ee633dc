#include "train/run_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../core/support.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::test::read_bytes;
using core::test::TempDir;
using core::test::write_bytes;

TEST(RunLock, IsHeldByOneAndNamesIt) {
  const TempDir run;
  const RunLock first(run.path());
  EXPECT_ERROR(RunLock(run.path()), "is being trained by process " + std::to_string(::getpid()));
  EXPECT_ERROR(RunLock(run.path()), run.path().string());
}

TEST(RunLock, LeavesNothingBehind) {
  const TempDir run;
  { const RunLock lock(run.path()); }
  EXPECT_TRUE(fs::is_empty(run.path()));
  EXPECT_NO_THROW(RunLock(run.path()));
}

TEST(RunLock, MovesWithItsOwner) {
  const TempDir run;
  RunLock first(run.path());
  RunLock second(std::move(first));
  EXPECT_ERROR(RunLock(run.path()), "is being trained");
  const TempDir other;
  second = RunLock(other.path());
  EXPECT_NO_THROW(RunLock(run.path()));
  EXPECT_ERROR(RunLock(other.path()), "is being trained");
}

TEST(RunLock, AKilledProcessHoldsNothing) {
  const TempDir run;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(run.path());
    static_cast<void>(!::write(ready[1], "x", 1));
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_ERROR(RunLock(run.path()), "process " + std::to_string(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(run / ".lock"));
  EXPECT_NO_THROW(RunLock(run.path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLock, AFileAloneLocksNothing) {
  const TempDir run;
  write_bytes(run / ".lock", "123456789");
  const RunLock lock(run.path());
  EXPECT_EQ(read_bytes(run / ".lock"), std::to_string(::getpid()));
}

TEST(RunLock, IsNotInheritedByPrograms) {
  const TempDir run;
  const RunLock lock(run.path());
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  const fs::path process = "/proc/" + std::to_string(child);
  while (fs::read_symlink(process / "exe") == fs::read_symlink("/proc/self/exe")) ::usleep(1000);  // until it runs
  for (const auto& open_file : fs::directory_iterator(process / "fd")) {
    EXPECT_NE(fs::read_symlink(open_file).filename(), ".lock");
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(RunLock, SaysWhatCannotBeWritten) {
  const TempDir run;
  EXPECT_ERROR(RunLock(run / "none"), "none/.lock: No such file or directory");
}

}  // namespace
}  // namespace folio::train
