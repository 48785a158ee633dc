#include "train/run/checkpoint.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "modules/families/parts.h"
#include "tests/train/support.h"
#include "train/step/adamw.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::Saved;
using test::Small;
using test::TempDir;

TEST(Checkpoint, KeepsOnlyLastAndBest) {
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
  save_after(2, 3.0);  // a higher loss, so the link `best` doesn't change
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "best", "step-000002", "step-000004"}));
  EXPECT_EQ(fs::read_symlink(checkpoints / "last"), "step-000004");
  EXPECT_EQ(fs::read_symlink(checkpoints / "best"), "step-000002");
  save_after(1, 1.0);  // a lower loss, so `best` links to the new checkpoint
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "best", "step-000005"}));
  EXPECT_EQ(fs::read_symlink(checkpoints / "best"), "step-000005");
}

TEST(Checkpoint, RemovesFilesOfKilledSaves) {
  const TempDir run;
  const fs::path checkpoints = run / "checkpoints";
  fs::create_directories(checkpoints / ".step-000003.tmp");
  test::write_bytes(checkpoints / ".step-000003.tmp/model.safetensors", "half");
  fs::create_directories(checkpoints / ".step-000001.tmp");  // the next save uses the same name
  test::write_bytes(checkpoints / ".step-000001.tmp/foreign", "half");
  test::write_bytes(checkpoints / "notes.txt", "a reader's own");
  Small small;
  small.trainer.step();
  small.trainer.save(run.path());
  EXPECT_EQ(names_in(checkpoints), (std::set<std::string>{"last", "step-000001", "notes.txt"}));
  EXPECT_FALSE(fs::exists(checkpoints / "step-000001/foreign"));
}

TEST(Checkpoint, KeepsUsersCopies) {
  const TempDir run;
  const fs::path checkpoints = run / "checkpoints";
  for (const char* name : {"step-000001-copy", "step-", "mine", ".step-x.tmp"}) {
    fs::create_directories(checkpoints / name);
  }
  Small small;
  small.trainer.step();
  small.trainer.save(run.path());
  recover_checkpoints(run.path());
  EXPECT_EQ(names_in(checkpoints),
            (std::set<std::string>{"last", "step-000001", "step-000001-copy", "step-", "mine", ".step-x.tmp"}));
}

TEST(Checkpoint, DoesNotRewriteALinkedStep) {
  Saved saved;
  const auto written = fs::last_write_time(saved.last() / "model.safetensors");
  saved.trainer.save(saved.run.path());
  EXPECT_EQ(fs::last_write_time(saved.last() / "model.safetensors"), written);
  EXPECT_EQ(fs::read_symlink(saved.last()), "step-000001");
}

TEST(Checkpoint, RestoresLinksThatACopyHasReplacedByFolders) {
  const TempDir run, copy;
  Small small;
  small.trainer.note_validation_loss(1.0);
  small.trainer.save(run.path());
  fs::copy(run.path(), copy.path(), fs::copy_options::recursive);  // follows links
  ASSERT_FALSE(fs::is_symlink(copy / "checkpoints/last") || fs::is_symlink(copy / "checkpoints/best"));
  recover_checkpoints(copy.path());
  EXPECT_EQ(fs::read_symlink(copy / "checkpoints/best"), "step-000000");
  small.trainer.step();
  small.trainer.save(copy.path());
  EXPECT_EQ(fs::read_symlink(copy / "checkpoints/last"), "step-000001");
}

TEST(Checkpoint, RecoveryWithoutCheckpointsIsNoError) {
  const TempDir run;
  EXPECT_NO_THROW(recover_checkpoints(run.path()));
  fs::create_directories(run / "checkpoints/.step-000000.tmp");  // as if the first save was killed
  fs::create_directories(run / "checkpoints/step-000000");
  recover_checkpoints(run.path());
  EXPECT_TRUE(fs::is_empty(run / "checkpoints"));
}

TEST(Checkpoint, NamesAMissingBestCheckpoint) {
  const TempDir run;
  Small small;
  small.trainer.note_validation_loss(1.0);
  small.trainer.save(run.path());
  small.trainer.step();
  small.trainer.save(run.path());
  fs::remove_all(run / "checkpoints/step-000000");
  EXPECT_ERROR((recover_checkpoints(run.path()), 0), "the best checkpoint, step-000000, is missing");
}

TEST(Checkpoint, LoadingCopiesAndNeverAliases) {
  Saved a;
  const fs::path last = fs::canonical(a.last());
  parallel::RankModel model(a.trainer.config(), a.trainer.world());
  AdamW optimizer(model, a.trainer.config());
  load_checkpoint(last, model, nullptr, optimizer, read_trainer_state(last));
  const auto state_of = [&] {
    auto all = test::copies(model.llama());
    for (const auto& [name, tensor] : optimizer.state()) all.push_back(tensor.clone());
    return all;
  };
  const auto loaded = state_of();
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string bytes = test::read_bytes(last / name);
    // Changing the model must not change the file.
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& p : model.llama()->parameters()) p.add_(1.0);
    for (const auto& [name, tensor] : optimizer.state()) tensor.add_(1.0);
    EXPECT_EQ(test::read_bytes(last / name), bytes);
    load_checkpoint(last, model, nullptr, optimizer, read_trainer_state(last));
  }
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    // Changing or removing the file must not change the model.
    std::fstream file(last / name, std::ios::in | std::ios::out | std::ios::binary);
    const std::string zeros(fs::file_size(last / name), '\0');
    file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  }
  EXPECT_TRUE(test::same_bits(state_of(), loaded));
  fs::remove_all(last);
  EXPECT_TRUE(test::same_bits(state_of(), loaded));
}

TEST(Checkpoint, RejectsMomentsOfAnotherStep) {
  Saved saved;
  const std::string moments = test::read_bytes(saved.last() / "optimizer.safetensors");
  saved.trainer.step();
  saved.trainer.save(saved.run.path());
  test::write_bytes(fs::canonical(saved.last()) / "optimizer.safetensors", moments);
  Small other;
  EXPECT_ERROR((other.trainer.resume(saved.last()), 0), "not from step 2");
}

TEST(Checkpoint, RejectsMomentsOfAnotherTypeOrShape) {
  Saved saved;
  const fs::path path = fs::canonical(saved.last()) / "optimizer.safetensors";
  const std::string name = "exp_avg." + saved.trainer.model()->named_parameters()[0].key();
  const std::vector<int64_t> shape = saved.trainer.model()->parameters()[0].sizes().vec();
  const std::string bytes = test::read_bytes(path);
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    changed.replace(changed.find(from, changed.find('"' + name + '"')), from.size(), to);
    test::write_bytes(path, changed);
    Small other;
    return test::error_of([&] { other.trainer.resume(saved.last()); });
  };
  // Each change keeps the file's length, so that nothing but the type or the shape is wrong.
  EXPECT_TRUE(test::contains(change("\"F32\"", "\"I32\""), name + " is I32 "));
  const std::string turned =
      change(fmt::format("[{},{}]", shape[0], shape[1]), fmt::format("[{},{}]", shape[1], shape[0]));
  EXPECT_TRUE(test::contains(turned, fmt::format("expected F32 [{}, {}]", shape[0], shape[1])));
}

TEST(Checkpoint, RejectsUnknownOptimizerState) {
  const Saved saved;
  const fs::path path = fs::canonical(saved.last()) / "optimizer.safetensors";
  std::string bytes = test::read_bytes(path);
  const size_t first = bytes.find("exp_avg_sq.");
  test::write_bytes(path, bytes.replace(first, 10, "exp_avg_xx"));
  Small other;
  EXPECT_ERROR((other.trainer.resume(saved.last()), 0), "unexpected tensor exp_avg_xx.");
}

TEST(Checkpoint, RestoresSourceAndEnvironment) {
  const Saved saved;
  const TrainerState state = read_trainer_state(saved.last());
  EXPECT_EQ(state.source.name, "small");
  EXPECT_EQ(state.source.bytes, std::ssize(test::small_text(600)));
  EXPECT_EQ(state.environment.threads, at::get_num_threads());
  EXPECT_EQ(describe_difference(state.environment, this_environment()), "");
  for (const std::string& version : {state.environment.folio, state.environment.libtorch})
    EXPECT_TRUE(test::contains(version, ".")) << version;
}

TEST(Checkpoint, ReadsStateOfOlderRuns) {
  const TempDir run;
  Small small;
  small.trainer.note_validation_loss(1.25);
  small.trainer.note_validation_loss(1.5);
  small.trainer.save(run.path());
  EXPECT_EQ(read_trainer_state(run / "checkpoints/last").evaluations_since_best, 1);
  auto json = nlohmann::json::parse(test::read_bytes(run / "checkpoints/last/trainer.json"));
  ASSERT_EQ(json.erase("evaluations_since_best"), 1U);
  test::write_bytes(run / "checkpoints/last/trainer.json", json.dump());
  EXPECT_EQ(read_trainer_state(run / "checkpoints/last").evaluations_since_best, 0);
}

TEST(Checkpoint, RejectsLaterVersions) {
  const Saved saved;
  const fs::path path = saved.last() / "trainer.json";
  std::string json = test::read_bytes(path);
  json.replace(json.find("\"version\": 2"), 12, "\"version\": 3");
  test::write_bytes(path, json);
  EXPECT_ERROR(read_trainer_state(saved.last()), "version 3");
}

TEST(Checkpoint, RejectsThreadsOutOfRange) {
  const Saved saved;
  const fs::path path = saved.last() / "trainer.json";
  auto json = nlohmann::json::parse(test::read_bytes(path));
  json["environment"]["threads"] = -1;
  test::write_bytes(path, json.dump());
  EXPECT_ERROR(read_trainer_state(saved.last()), "\"threads\" is -1");
}

TEST(Checkpoint, DescribesAnotherEnvironment) {
  const Environment here{.folio = "0.2.0", .libtorch = "2.13.0", .cpu = "AVX2", .threads = 2};
  EXPECT_EQ(describe_difference(here, here), "");
  Environment there = here;
  there.libtorch = "2.14.0";
  there.threads = 4;
  EXPECT_EQ(describe_difference(here, there), "libtorch \"2.13.0\" -> \"2.14.0\", threads 2 -> 4");
}

TEST(Checkpoint, DigestMatchesPublishedVectors) {
  // Published test vectors of FNV-1a.
  EXPECT_EQ(test::digest_of(""), "cbf29ce484222325");
  EXPECT_EQ(test::digest_of("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(test::digest_of("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace folio::train
