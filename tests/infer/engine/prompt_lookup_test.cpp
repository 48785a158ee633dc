// Tests infer/engine/prompt_lookup.h: draft tokens are those after an earlier occurrence of the sequence's last tokens.
#include "infer/engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace folio::infer {
namespace {

TEST(PromptLookup, DraftsContinueTheLastMatch) {
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{1, 2, 3, 4, 5, 1, 2, 3}, 8),
            (std::vector<int32_t>{4, 5, 1, 2, 3, 4, 5, 1}));
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{1, 2, 3, 4, 5, 1, 2, 3}, 2), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{7, 2, 3, 4, 9, 2, 3}, 1), (std::vector<int32_t>{4}))
      << "two tokens are enough";
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{1, 2, 3, 8, 2, 3, 9, 1, 2, 3}, 1), (std::vector<int32_t>{8}))
      << "three are tried before two";
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{2, 3, 8, 2, 3, 9, 2, 3}, 1), (std::vector<int32_t>{9}))
      << "the latest match";
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{5, 5, 5}, 3), (std::vector<int32_t>{5, 5, 5}));
  EXPECT_EQ(PromptLookup::drafts(std::vector<int32_t>{1, 2, 3, 4}, 8), (std::vector<int32_t>{}));
  for (const std::vector<int32_t>& text : {std::vector<int32_t>{}, {1}, {1, 1}})
    EXPECT_TRUE(PromptLookup::drafts(text, 8).empty());
}

TEST(PromptLookup, PoorDraftsRequireLongerMatches) {
  const std::vector<int32_t> text{1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5};
  EXPECT_EQ(PromptLookup::drafts(text, 2, 4), (std::vector<int32_t>{6, 7}));
  EXPECT_TRUE(PromptLookup::drafts(text, 2, 5).empty()) << "four tokens are not enough";
  EXPECT_TRUE(PromptLookup::drafts(text, 2, 20).empty());
  PromptLookup lookup;
  Sampler sampler({}, {});
  std::unique_ptr<Drafter::Memory> memory;
  const auto n_drafts = [&](size_t n_misses) {
    std::vector<int32_t> tokens = text;
    lookup.draft(std::array{Drafter::Input{
        .tokens = tokens, .first = 0, .most = 2, .n_misses = n_misses, .sampler = sampler, .memory = memory}});
    return tokens.size() - text.size();
  };
  EXPECT_EQ(n_drafts(0), 2U);
  EXPECT_EQ(n_drafts(2), 2U);
  EXPECT_EQ(n_drafts(3), 0U);
}

}  // namespace
}  // namespace folio::infer
