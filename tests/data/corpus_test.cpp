#include "data/corpus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <numeric>
#include <vector>

#include "tests/core/support.h"

namespace folio::data {
namespace {

using core::test::ScopedEnv;
using core::test::TempDir;
using core::test::write_bytes;

std::vector<int32_t> first_numbers(size_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Splits, SizesMatchPublishedOnes) {
  const std::vector<int32_t> tokens = first_numbers(1'115'394);
  const auto sizes = [&](double test_fraction) {
    const Splits splits = split_tokens(tokens, 0.1, test_fraction);
    return std::vector{splits.train.size(), splits.validation.size(), splits.test.size()};
  };
  EXPECT_EQ(sizes(0.0), (std::vector<size_t>{1'003'854, 111'540, 0}));
  EXPECT_EQ(sizes(0.1), (std::vector<size_t>{892'315, 111'539, 111'540}));  // Kitano's "Llama from scratch"
}

TEST(Splits, SplitsAreConsecutiveAndCoverTheText) {
  for (const size_t n : {20U, 37U, 100U, 999U, 1000U}) {
    const std::vector<int32_t> tokens = first_numbers(n);
    for (const double test_fraction : {0.0, 0.1, 0.3}) {
      const Splits splits = split_tokens(tokens, 0.1, test_fraction);
      EXPECT_EQ(splits.train.data(), tokens.data());
      EXPECT_EQ(splits.validation.data(), splits.train.data() + splits.train.size());
      EXPECT_EQ(splits.test.data(), splits.validation.data() + splits.validation.size());
      EXPECT_EQ(splits.train.size() + splits.validation.size() + splits.test.size(), n);
    }
  }
}

TEST(Splits, ExactProductsAreNotRoundedDown) {
  // In floating point, 1 - 0.1 - 0.1 and 1 - 0.3 are a little less than 0.8 and 0.7, so 799 and 699 would be wrong.
  EXPECT_EQ(split_tokens(first_numbers(1000), 0.1, 0.1).train.size(), 800U);
  EXPECT_EQ(split_tokens(first_numbers(1000), 0.3, 0.0).train.size(), 700U);
  EXPECT_EQ(split_tokens(first_numbers(1000), 0.1, 0.0).train.size(), 900U);
}

TEST(Splits, RejectsFractionsThatLeaveNoTrainingData) {
  const std::vector<int32_t> tokens = first_numbers(1000);
  EXPECT_ERROR(split_tokens(tokens, 1.0, 0.0), "leave nothing to train on");
  EXPECT_ERROR(split_tokens(tokens, 0.5, 0.5), "leave nothing to train on");
  EXPECT_ERROR(split_tokens(tokens, 0.0, 0.1), "leave nothing");
  EXPECT_ERROR(split_tokens(tokens, -0.1, 0.0), "leave nothing");
  EXPECT_ERROR(split_tokens(tokens, 0.1, -0.1), "leave nothing");
  EXPECT_ERROR(split_tokens(tokens, std::nan(""), 0.0), "leave nothing");
}

TEST(Splits, RejectsTextTooShortToSplit) {
  EXPECT_ERROR(split_tokens({}, 0.1, 0.0), "too short");
  EXPECT_ERROR(split_tokens(first_numbers(10), 0.1, 0.0), "a text of 10 tokens is too short");
  EXPECT_ERROR(split_tokens(first_numbers(1000), 0.1, 0.001), "too short");
}

TEST(Corpus, NameIsThatOfTheFileOrFolder) {
  const TempDir folder;
  for (const char* path : {"poems.txt", "poems", "poems/", "poems/.", "poems/new/..", "poems/new/../"}) {
    EXPECT_EQ(dataset_name((folder / path).string()), "poems") << path;
  }
  EXPECT_EQ(dataset_name("."), std::filesystem::current_path().stem());
  EXPECT_EQ(dataset_name(".."), std::filesystem::current_path().parent_path().stem());
  EXPECT_EQ(dataset_name("/"), "text");
}

TEST(Corpus, ErrorsNameMissingAndEmptyFiles) {
  const TempDir folder;
  write_bytes(folder / "empty.txt", "");
  EXPECT_ERROR(load_corpus((folder / "none.txt").string()), "none.txt");
  EXPECT_ERROR(load_corpus((folder / "empty.txt").string()), "is empty");
  EXPECT_ERROR(load_corpus(folder.path().string()), folder.path().filename().string());
}

TEST(Corpus, ReadsTinyShakespeareFromTheDataFolder) {
  const TempDir home;
  const ScopedEnv env("FOLIO_HOME", home.path().c_str());
  std::filesystem::create_directories(home / "data/tinyshakespeare");
  write_bytes(home / "data/tinyshakespeare/input.txt", "First Citizen:\n");
  EXPECT_EQ(load_corpus("tinyshakespeare").text, "First Citizen:\n");
}

TEST(Corpus, MissingDownloadScriptIsAnError) {
  const TempDir home;
  const ScopedEnv env("FOLIO_HOME", home.path().c_str());
  EXPECT_ERROR(load_corpus("tinyshakespeare"), "get_tinyshakespeare.py");
}

// While SIGCHLD is ignored, waitpid() fails, since the system keeps no exit status.
TEST(Corpus, UnknownDownloadStatusIsAFailure) {
  const TempDir home;
  const ScopedEnv env("FOLIO_HOME", home.path().c_str());
  std::filesystem::create_directories(home / "scripts");
  write_bytes(home / "scripts/get_tinyshakespeare.py", "raise SystemExit(1)\n");
  EXPECT_ERROR(load_corpus("tinyshakespeare"), "cannot download TinyShakespeare");
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_ERROR(load_corpus("tinyshakespeare"), "cannot wait for python3");
  std::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace folio::data
