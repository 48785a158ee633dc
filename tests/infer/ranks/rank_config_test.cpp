// Tests infer/ranks/net/rank_config.h: reading torchrun's environment variables, and errors for invalid ones.
#include "infer/ranks/net/rank_config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/support.h"

namespace folio::infer {
namespace {

class RankConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  static void clear() {
    for (const char* name : {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                             "TORCHELASTIC_USE_AGENT_STORE", "FOLIO_RANK_TIMEOUT", "FOLIO_RANK_TRANSPORT"}) {
      ::unsetenv(name);
    }
  }
  static constexpr auto kTwo = [] {
    return std::map<std::string, std::string>{
        {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  };
};

TEST_F(RankConfigTest, OneProcessHasNoRankConfiguration) {
  EXPECT_FALSE(rank_config_from_environment());
  set({{"WORLD_SIZE", "1"}});
  EXPECT_FALSE(rank_config_from_environment());
}

TEST_F(RankConfigTest, ReadsTheEnvironmentVariables) {
  set(kTwo());
  const auto world = rank_config_from_environment();
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 1U);
  EXPECT_EQ(world->n_ranks, 2U);
  EXPECT_EQ(world->n_local, 2U);
  EXPECT_EQ(world->address, "localhost");
  EXPECT_EQ(world->port, 29500);
  EXPECT_EQ(world->timeout.count(), 60);
  EXPECT_TRUE(world->shared_memory);
}

TEST_F(RankConfigTest, UsesThePortAfterTorchrunsAgent) {
  set(kTwo());
  set({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"LOCAL_WORLD_SIZE", "1"}, {"FOLIO_RANK_TIMEOUT", "1"}});
  set({{"FOLIO_RANK_TRANSPORT", "gloo"}});
  const auto world = rank_config_from_environment();
  EXPECT_EQ(world->port, 29502);
  EXPECT_EQ(world->n_local, 1U);
  EXPECT_EQ(world->timeout.count(), 1);
  EXPECT_FALSE(world->shared_memory);
}

TEST_F(RankConfigTest, ErrorsNameTheVariable) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"RANK", "2"},
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
                                                                                    {"LOCAL_WORLD_SIZE", "3"}}) {
    clear();
    set(kTwo());
    set({{name, value}});
    EXPECT_ERROR(rank_config_from_environment(), name);
  }
}

}  // namespace
}  // namespace folio::infer
