// Tests that a save in which a system call fails, or in which the process is killed, leaves either the old or the new
// checkpoint, complete. tests/apps/kill_test.py kills the train program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "tests/train/run/faults.h"
#include "tests/train/support.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using test::Faults;
using test::Small;
using test::TempDir;

// A run with a checkpoint of step 2, and its trainer at step 3, which has a lower validation loss and is not saved yet.
// The tested save replaces `best` and `last`, and removes the checkpoint of step 2.
class SaveFaults : public testing::Test {
 protected:
  SaveFaults() {
    for (int i = 0; i < 2; ++i) small_.trainer.step();
    small_.trainer.note_validation_loss(3.0);
    small_.trainer.save(before_.path());
    old_ = test::copies(small_.trainer.model());
    small_.trainer.step();
    small_.trainer.note_validation_loss(2.0);
    new_ = test::copies(small_.trainer.model());
  }

  // Returns the folder of a fresh copy of the run at step 2, for the tested save.
  fs::path fresh_run() {
    fs::remove_all(work_ / "run");
    fs::copy(before_.path(), work_ / "run", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return work_ / "run";
  }

  std::vector<std::string> calls_of_a_save() {
    const fs::path run = fresh_run();
    const Faults faults;
    small_.trainer.save(run);
    return faults.calls();
  }

  // Recovers and resumes the run as a new process would. Checks weights and links, and returns the checkpoint's step.
  int64_t recovered_step(const fs::path& run) {
    recover_checkpoints(run);
    Small next;
    next.trainer.resume(run / "checkpoints/last");
    const int64_t step = next.trainer.state().step;
    EXPECT_TRUE(step == 2 || step == 3);
    EXPECT_TRUE(test::same_bits(test::copies(next.trainer.model()), step == 2 ? old_ : new_));
    EXPECT_EQ(next.trainer.state().best_step, step);
    const std::string name = "step-00000" + std::to_string(step);
    EXPECT_EQ(test::names_in(run / "checkpoints"), (std::set<std::string>{"last", "best", name}));
    EXPECT_EQ(fs::read_symlink(run / "checkpoints/best"), name);
    return step;
  }

  TempDir before_, work_;
  Small small_;
  std::vector<torch::Tensor> old_, new_;
};

TEST_F(SaveFaults, InterceptEveryCallThatChangesAFile) {
  const auto calls = calls_of_a_save();
  const auto count = [&](const char* name) { return std::count(calls.begin(), calls.end(), name); };
  // A save writes six files in a new folder, syncs them and three folders, and replaces two links.
  EXPECT_GE(count("write"), 6);
  EXPECT_GE(count("fsync"), 6 + 3);
  EXPECT_EQ(count("rename"), 6 + 1 + 2);
  EXPECT_EQ(count("symlink"), 2);
  EXPECT_EQ(count("mkdir"), 1);
  EXPECT_GE(count("unlinkat"), 6);  // removes the files of step 2
  EXPECT_EQ(count("open") + count("openat"), count("close") + count("openat"));
}

TEST_F(SaveFaults, KillAtAnyCallKeepsAValidCheckpoint) {
  const int n_calls = static_cast<int>(calls_of_a_save().size());
  int64_t before = 2;
  for (int at = 1; at <= n_calls; ++at) {
    SCOPED_TRACE(at);
    const fs::path run = fresh_run();
    const pid_t child = ::fork();
    if (child == 0) {  // fork() copies only this thread, which is enough to save
      const Faults faults(at, Faults::kKill);
      small_.trainer.save(run);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const int64_t step = recovered_step(run);
    EXPECT_GE(step, before) << "there is more than one instant at which the new one counts";
    before = step;
  }
  EXPECT_EQ(before, 3);
}

TEST_F(SaveFaults, FailedCallsAreReportedAndKeepACheckpoint) {
  const auto calls = calls_of_a_save();
  const std::set<std::string> must_be_said{"write", "fsync", "rename", "symlink", "mkdir", "open"};
  for (const int error : {ENOSPC, EIO}) {
    for (int at = 1; at <= static_cast<int>(calls.size()); at += error == EIO ? 3 : 1) {  // EIO: every third call
      const std::string& call = calls[static_cast<size_t>(at) - 1];
      SCOPED_TRACE(call + " " + std::to_string(at) + ": " + std::strerror(error));
      const fs::path run = fresh_run();
      const std::string said = core::test::message_of([&] {
        const Faults faults(at, error);
        small_.trainer.save(run);
      });
      if (said.empty()) {
        EXPECT_FALSE(must_be_said.contains(call));
        EXPECT_EQ(fs::read_symlink(run / "checkpoints/last"), "step-000003");
      } else {
        EXPECT_TRUE(test::contains(said, "step-000003"));
        EXPECT_TRUE(test::contains(said, std::strerror(error)));
        EXPECT_EQ(said.find('\n'), std::string::npos);
        EXPECT_FALSE(test::contains(said, ".tmp-")) << said;
        EXPECT_FALSE(fs::exists(run / "checkpoints/.step-000003.tmp")) << "a full disk stays full";
      }
      recovered_step(run);
    }
  }
}

}  // namespace
}  // namespace folio::train
