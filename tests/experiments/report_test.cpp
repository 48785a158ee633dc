// Tests experiments/common/report.h, ranks.h and trainer.h: how studies start, report, and end.
#include "experiments/common/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/common/ranks.h"
#include "experiments/common/trainer.h"
#include "tests/core/support.h"

namespace folio::experiments {
namespace {

using core::test::TempDir;

struct Outcome {
  int code = 0;
  nlohmann::json results{};
};

Outcome outcome_of(const std::function<void(Report&)>& study, std::vector<std::string> flags = {}) {
  const TempDir directory;
  flags.insert(flags.begin(), {"study", "--out", directory.path().string()});
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  Outcome outcome{.code = run(static_cast<int>(argv.size()), argv.data(), "study", study)};
  if (std::filesystem::exists(directory / "results.json")) {
    outcome.results = nlohmann::json::parse(core::test::read_bytes(directory / "results.json"));
  }
  return outcome;
}

TEST(Report, AResultHoldsIfEverySeedFulfilsIt) {
  EXPECT_EQ(outcome_of([](Report& r) { r.check_below("c", std::vector{1.0, 2.0, 2.9}, 3.0); }).code, 0);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_above("c", std::vector{3.1, 4.0}, 3.0); }).code, 0);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_equal("c", std::vector<int64_t>{3, 3}, 3); }).code, 0);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_below("c", std::vector{1.0, 3.0, 2.9}, 3.0); }).code, 1);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_above("c", std::vector{4.0, 4.0, 3.0}, 3.0); }).code, 1);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_equal("c", std::vector<int64_t>{3, 4}, 3); }).code, 1);
}

TEST(Report, AResultOnAMeanHasToHoldForAllOfItsInterval) {
  const Interval interval{.mean = 0.2, .low = 0.1, .high = 0.3};
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_above("c", interval, 0.05); }).code, 0);
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_above("c", interval, 0.15); }).code, 1);
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_below("c", interval, 0.35); }).code, 0);
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_below("c", interval, 0.25); }).code, 1);
}

TEST(Report, WhatIsNotANumberFulfilsNoResult) {
  const double nan = std::nan("");
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_below("c", std::vector{1.0, nan}, 3.0); }).code, 1);
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_above("c", std::vector{nan, 4.0}, 3.0); }).code, 1);
  EXPECT_EQ(outcome_of([&](Report& r) { r.check_below("c", nan, 3.0); }).code, 1);
}

TEST(Report, OneFailureAmongManyResultsFailsTheStudy) {
  const auto study = [](Report& r) {
    r.check_below("holds", 1.0, 2.0);
    r.check_below("fails", 2.0, 1.0);
    r.check_below("holds", 1.0, 2.0);
  };
  EXPECT_EQ(outcome_of(study).code, 1);
}

TEST(Report, ResultsHaveEveryColumnAndValue) {
  const auto study = [](Report& r) {
    r.table("t", {"", "worst", "worst"}, {{"a", 1, 2}});
    r.value("seconds", 0.5);
  };
  const auto results = outcome_of(study).results;
  EXPECT_EQ(results["tables"]["t"][0], (nlohmann::json{{"", "a"}, {"worst", 1}, {"worst (2)", 2}}));
  EXPECT_EQ(results["values"]["seconds"], 0.5);
}

TEST(Report, ShowsTheSeedNearestToTheBound) {
  const auto study = [](Report& r) {
    r.check_below("below", std::vector{1.0, 2.5, 2.0}, 3.0);
    r.check_above("above", std::vector{9.0, 4.0, 5.0}, 3.0);
    r.check_below("fails", std::vector{1.0, 7.0, 2.9}, 3.0);
  };
  const auto results = outcome_of(study).results["results"];
  EXPECT_EQ(results[0]["measured"], 2.5);
  EXPECT_EQ(results[1]["measured"], 4.0);
  EXPECT_EQ(results[2]["measured"], 7.0) << "one that fails, not the nearest that holds";
  EXPECT_EQ(results[0]["by_seed"].size(), 3U);
}

TEST(Report, ShortFormHasOneSeed) {
  std::vector<uint64_t> seeds;
  const auto study = [&](Report& r) { seeds = r.seeds(); };
  outcome_of(study, {"--seed", "7"});
  EXPECT_EQ(seeds, (std::vector<uint64_t>{7, 8, 9}));
  EXPECT_EQ(outcome_of(study, {"--short", "--seed", "7"}).results["short"], true);
  EXPECT_EQ(seeds, (std::vector<uint64_t>{7}));
}

TEST(Report, WrongUsageExitsWithTwo) {
  const auto study = [](Report&) {};
  EXPECT_EQ(outcome_of(study, {"--seed"}).code, 2);
  EXPECT_EQ(outcome_of(study, {"--seed", "-1"}).code, 2);
  EXPECT_EQ(outcome_of(study, {"--shrt"}).code, 2);
  EXPECT_EQ(outcome_of([](Report& r) { r.check_below("empty", std::vector<double>{}, 1.0); }).code, 1);
}

TEST(Ranks, AStudyThatIsLaunchedAsARankIsRejected) {
  const core::test::ScopedEnv rank("RANK", "0"), world_size("WORLD_SIZE", "1");
  std::vector<std::string> arguments{"build/experiments/study", "--out", "directory"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  EXPECT_EQ(run_as_rank(3, argv.data(), [](const auto&, const auto&) { FAIL() << "--out is not a rank's argument"; }),
            1);
}

TEST(Trainer, HasTheStudysSeedAndAnyDirectory) {
  if (!has_trainer()) GTEST_SKIP() << "build/train is not built";
  const TempDir directory;
  const Report report("study", directory / "reader's", 2);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "She sells sea shells.\n";
  core::test::write_bytes(report.directory() / "text", text);
  run_trainer(report, report.directory() / "text", "run", "--dim 16 --layers 1 --heads 1 --steps 1 --sample 0");
  EXPECT_NE(core::test::read_bytes(report.directory() / "run/config.toml").find("seed = 1338"), std::string::npos);
}

}  // namespace
}  // namespace folio::experiments
