#include "train/run/run_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/core/support.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::test::ScopedEnv;
using core::test::TempDir;
using core::test::write_bytes;

class RunDirectory : public testing::Test {
 protected:
  fs::path make(const std::string& name, RunState state) {
    const fs::path run = home_ / "runs" / name;
    fs::create_directories(run / "checkpoints/step-000001");
    fs::create_directory_symlink("step-000001", run / "checkpoints/last");
    write_bytes(run / "log.jsonl", "");
    if (state == RunState::Finished) write_bytes(run / "model.gguf", "GGUF");
    return run;
  }
  static RunChoice choose(std::optional<std::string> out = {}, bool resume = false, bool force = false) {
    return choose_run("text", out, resume, force);
  }

  TempDir home_;
  ScopedEnv env_{"FOLIO_HOME", home_.path().c_str()};
};

TEST_F(RunDirectory, KeepsFinishedRunsAndUsesTheNextNumber) {
  make("text", RunState::Finished);
  EXPECT_EQ(choose().path.filename(), "text-2");
  make("text-2", RunState::Finished);
  EXPECT_EQ(choose().path.filename(), "text-3");
}

TEST_F(RunDirectory, UnfinishedRunRequiresResumeOrForce) {
  make("text", RunState::Unfinished);
  EXPECT_ERROR(choose(), "--resume");
  EXPECT_ERROR(choose(), "--force");
  EXPECT_TRUE(choose({}, true).resume);
}

TEST_F(RunDirectory, ResumesTheUnfinishedRunAfterFinishedOnes) {
  make("text", RunState::Finished);
  make("text-2", RunState::Unfinished);
  EXPECT_ERROR(choose(), "text-2");
  const RunChoice choice = choose({}, true);
  EXPECT_EQ(choice.path.filename(), "text-2");
  EXPECT_TRUE(choice.resume);
}

TEST_F(RunDirectory, RunWithOnlyALogCannotBeResumed) {
  fs::create_directories(home_ / "runs/text");
  write_bytes(home_ / "runs/text/log.jsonl", "");
  EXPECT_ERROR(choose(), "--force");
  EXPECT_ERROR(choose({}, true), "--force");
}

TEST_F(RunDirectory, ReportsNothingToResume) { EXPECT_ERROR(choose({}, true), "remove --resume"); }

TEST_F(RunDirectory, DoesNotOverwriteAFinishedOut) {
  const fs::path run = make("mine", RunState::Finished);
  EXPECT_ERROR(choose(run.string()), "--force");
  EXPECT_ERROR(choose(run.string(), true), "nothing to resume");
}

TEST_F(RunDirectory, AdaptersAreFinishedWithTheirSummary) {
  const fs::path run = make("text", RunState::Unfinished);
  write_bytes(run / "summary.txt", "best");
  EXPECT_EQ(run_state(run), RunState::Unfinished) << "a model is exported after its summary";
  write_bytes(run / "checkpoints/last/adapter_config.json", "{}");
  EXPECT_EQ(run_state(run), RunState::Finished);
  EXPECT_EQ(choose().path.filename(), "text-2");
}

TEST_F(RunDirectory, ForceRemovesOnlyTheRunsFiles) {
  const fs::path run = make("text", RunState::Finished);
  write_bytes(run / "notes.txt", "a reader's own");
  RunChoice choice = choose({}, false, true);
  EXPECT_EQ(choice.path, run);
  EXPECT_FALSE(choice.resume);
  EXPECT_EQ(run_state(run), RunState::Finished) << "a choice removes nothing";
  prepare_run(choice);
  EXPECT_EQ(run_state(run), RunState::Absent);
  EXPECT_TRUE(fs::exists(run / "notes.txt"));
}

TEST_F(RunDirectory, IsLockedOnceChosen) {
  const fs::path run = make("text", RunState::Unfinished);
  const RunLock other = lock_run(run);
  for (const auto& [resume, force] : {std::pair(false, false), {true, false}, {false, true}}) {
    EXPECT_ERROR(choose({}, resume, force), "is being trained by process " + std::to_string(::getpid()));
  }
  EXPECT_TRUE(fs::exists(run / "checkpoints/last"));
}

TEST_F(RunDirectory, RejectsASecondProcessWithTheSameName) {
  RunChoice first = choose();
  RunChoice second = choose();
  prepare_run(first);
  EXPECT_ERROR((prepare_run(second), 0), "is being trained");
  make("text", RunState::Finished);  // the state after the first process has finished
  first.lock.reset();
  EXPECT_ERROR((prepare_run(second), 0), "the run is finished; use another --out");
}

TEST_F(RunDirectory, RemovesTemporaryFilesOfKilledProcesses) {
  const fs::path run = make("text", RunState::Unfinished);
  for (const char* name : {".config.toml.tmp-12", ".log.jsonl.tmp-1", ".loss.svg.tmp-999999", ".model.gguf.tmp-7"}) {
    write_bytes(run / name, "half");
  }
  for (const char* name : {".notes.txt.tmp-12", ".model.gguf.tmp-old", "model.gguf.tmp-7", ".model.gguf.tmp"}) {
    write_bytes(run / name, "a reader's own");
  }
  RunChoice choice = choose({}, true);
  EXPECT_TRUE(fs::exists(run / ".config.toml.tmp-12")) << "a choice removes nothing";
  prepare_run(choice);
  choice.lock.reset();
  EXPECT_EQ(core::test::names_in(run),
            (std::set<std::string>{"log.jsonl", "checkpoints", ".notes.txt.tmp-12", ".model.gguf.tmp-old",
                                   "model.gguf.tmp-7", ".model.gguf.tmp"}));
}

TEST_F(RunDirectory, RestartsRunsKilledBeforeTheFirstCheckpoint) {
  fs::create_directories(home_ / "runs/text/checkpoints/.step-000000.tmp");
  write_bytes(home_ / "runs/text/config.toml", "steps = 3");
  EXPECT_EQ(choose().path.filename(), "text");
  EXPECT_ERROR(choose({}, true), "remove --resume");
}

}  // namespace
}  // namespace folio::train
