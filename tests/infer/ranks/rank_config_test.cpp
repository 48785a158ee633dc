// Tests infer/ranks/net/rank_config.h: reading torchrun's environment variables, and errors for invalid ones.
#include "infer/ranks/net/rank_config.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "tests/core/support.h"

namespace folio::infer {
namespace {

// Reads the configuration of rank 1 of 2 after `changes` to the environment variables. Empty variables are like unset
// ones.
std::optional<RankConfig> config_with(std::map<std::string, std::string> changes) {
  changes.merge(std::map<std::string, std::string>{{"WORLD_SIZE", "2"},
                                                   {"RANK", "1"},
                                                   {"LOCAL_WORLD_SIZE", ""},
                                                   {"MASTER_ADDR", "localhost"},
                                                   {"MASTER_PORT", "29500"},
                                                   {"TORCHELASTIC_USE_AGENT_STORE", ""},
                                                   {"FOLIO_RANK_TIMEOUT", ""},
                                                   {"FOLIO_RANK_TRANSPORT", ""}});
  std::deque<core::test::ScopedEnv> scope;
  for (const auto& [name, value] : changes) scope.emplace_back(name.c_str(), value.c_str());
  return rank_config_from_environment();
}

TEST(RankConfig, OneProcessHasNoRankConfiguration) {
  EXPECT_FALSE(config_with({{"WORLD_SIZE", ""}}));
  EXPECT_FALSE(config_with({{"WORLD_SIZE", "1"}}));
}

TEST(RankConfig, ReadsTheEnvironmentVariables) {
  const auto world = config_with({});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 1U);
  EXPECT_EQ(world->n_ranks, 2U);
  EXPECT_EQ(world->n_local, 2U);
  EXPECT_EQ(world->address, "localhost");
  EXPECT_EQ(world->port, 29500);
  EXPECT_EQ(world->timeout.count(), 60);
  EXPECT_TRUE(world->shared_memory);
}

TEST(RankConfig, UsesThePortAfterTorchrunsAgent) {
  const auto world = config_with({{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"LOCAL_WORLD_SIZE", "1"},
                                  {"FOLIO_RANK_TIMEOUT", "1"},
                                  {"FOLIO_RANK_TRANSPORT", "gloo"}});
  EXPECT_EQ(world->port, 29502);
  EXPECT_EQ(world->n_local, 1U);
  EXPECT_EQ(world->timeout.count(), 1);
  EXPECT_FALSE(world->shared_memory);
}

TEST(RankConfig, ErrorsNameTheVariable) {
  constexpr std::pair<const char*, const char*> kWrong[] = {{"RANK", "2"},
                                                            {"RANK", "-1"},
                                                            {"RANK", ""},
                                                            {"WORLD_SIZE", "65"},
                                                            {"WORLD_SIZE", "x"},
                                                            {"MASTER_PORT", "0"},
                                                            {"MASTER_PORT", "70000"},
                                                            {"MASTER_ADDR", ""},
                                                            {"FOLIO_RANK_TIMEOUT", "0"},
                                                            {"FOLIO_RANK_TIMEOUT", "86401"},
                                                            {"FOLIO_RANK_TRANSPORT", "pigeon"},
                                                            {"LOCAL_WORLD_SIZE", "3"}};
  for (const auto& [name, value] : kWrong) EXPECT_ERROR(config_with({{name, value}}), name);
}

}  // namespace
}  // namespace folio::infer
