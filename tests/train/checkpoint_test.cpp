#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <set>

#include "support.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using test::Small;
using test::TempDir;

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

TEST(Checkpoint, IsAHuggingFaceDirectoryWithTheOptimizerBesideIt) {
  const TempDir run;
  Small small;
  small.trainer.step();
  small.trainer.save(run.path());
  EXPECT_EQ(names_in(run / "checkpoints/step-000001"),
            (std::set<std::string>{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                   "optimizer.safetensors", "trainer.json"}));
}

TEST(Checkpoint, LastAndBestStayAndOlderOnesGo) {
  const TempDir run;
  const fs::path checkpoints = run / "checkpoints";
  Small small;
  const auto save_after = [&](int steps, std::optional<double> validation) {
    for (int i = 0; i < steps; ++i) small.trainer.step();
    if (validation) small.trainer.note_validation_loss(*validation);
    small.trainer.save(run.path());
  };
  save_after(1, {});
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "step-000001"}));
  save_after(1, 2.0);
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "best", "step-000002"}));
  save_after(2, 3.0);  // worse
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "best", "step-000002", "step-000004"}));
  EXPECT_EQ(fs::read_symlink(checkpoints / "last"), "step-000004");
  EXPECT_EQ(fs::read_symlink(checkpoints / "best"), "step-000002");
  save_after(1, 1.0);  // better
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "best", "step-000005"}));
  EXPECT_EQ(fs::read_symlink(checkpoints / "best"), "step-000005");
}

TEST(Checkpoint, LinksAreRelativeSoThatARunCanBeMoved) {
  const TempDir run;
  Small small;
  small.trainer.step();
  small.trainer.note_validation_loss(2.0);
  small.trainer.save(run / "before");
  fs::rename(run / "before", run / "after");
  EXPECT_EQ(read_trainer_state(run / "after/checkpoints/best").step, 1);
}

TEST(Checkpoint, WhatAKilledSaveLeftIsSwept) {
  const TempDir run;
  const fs::path checkpoints = run / "checkpoints";
  fs::create_directories(checkpoints / ".step-000003.tmp");
  test::write_bytes(checkpoints / ".step-000003.tmp/model.safetensors", "half");
  fs::create_directories(checkpoints / ".step-000001.tmp");  // in the way of the one to come
  test::write_bytes(checkpoints / ".step-000001.tmp/foreign", "half");
  test::write_bytes(checkpoints / "notes.txt", "a reader's own");
  Small small;
  small.trainer.step();
  small.trainer.save(run.path());
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "step-000001", "notes.txt"}));
  EXPECT_FALSE(fs::exists(checkpoints / "step-000001/foreign"));
}

TEST(Checkpoint, TheSameStepCanBeSavedTwice) {
  const TempDir run;
  Small small;
  small.trainer.step();
  small.trainer.save(run.path());
  const std::string first = test::read_bytes(run / "checkpoints/last/model.safetensors");
  small.trainer.save(run.path());
  EXPECT_EQ(test::read_bytes(run / "checkpoints/last/model.safetensors"), first);
}

TEST(Checkpoint, TheStateComesBack) {
  const TempDir run;
  Small small;
  small.trainer.step();
  small.trainer.note_validation_loss(1.25);
  small.trainer.save(run.path());
  const TrainerState state = read_trainer_state(run / "checkpoints/last");
  EXPECT_EQ(state.config, small.trainer.config());
  EXPECT_EQ(state.corpus, "small");
  EXPECT_EQ(state.corpus_digest, small.dataset.digest());
  EXPECT_EQ(state.step, 1);
  EXPECT_EQ(state.best_step, 1);
  EXPECT_EQ(state.best_validation_loss, 1.25);
}

TEST(Checkpoint, WeightsMomentsAndGeneratorComeBack) {
  const TempDir run;
  Small a;
  a.trainer.step();
  a.trainer.save(run.path());
  const torch::Tensor drawn = torch::randn({5});
  nn::Llama model(a.trainer.config().model, 0.1);
  AdamW optimizer(*model, a.trainer.config());
  load_checkpoint(run / "checkpoints/last", model, optimizer, read_trainer_state(run / "checkpoints/last"));
  EXPECT_TRUE(test::same_bits(test::copies(model), test::copies(a.trainer.model())));
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_TRUE(torch::equal(torch::randn({5}), drawn));
  bool moved = false;
  for (const auto& moments : optimizer.moments()) moved = moved || moments.second.abs().max().item<float>() > 0;
  EXPECT_TRUE(moved);
}

TEST(Checkpoint, ADirectoryThatCannotBeWrittenIsNamed) {
  const TempDir run;
  test::write_bytes(run / "checkpoints", "a file in the way");
  Small small;
  EXPECT_ERROR((small.trainer.save(run.path()), 0), "checkpoints");
}

TEST(Checkpoint, ALaterVersionIsRefused) {
  const TempDir run;
  Small small;
  small.trainer.save(run.path());
  const fs::path path = run / "checkpoints/last/trainer.json";
  std::string json = test::read_bytes(path);
  json.replace(json.find("\"version\": 1"), 12, "\"version\": 2");
  test::write_bytes(path, json);
  EXPECT_ERROR(read_trainer_state(run / "checkpoints/last"), "version 2");
}

TEST(Checkpoint, ADigestTellsTextsApart) {
  // FNV-1a's published test vectors.
  EXPECT_EQ(corpus_digest(""), "cbf29ce484222325");
  EXPECT_EQ(corpus_digest("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(corpus_digest("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace folio::train
