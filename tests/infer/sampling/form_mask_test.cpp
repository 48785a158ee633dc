// Tests the token masks of structured output (form_mask.h): they stay the same if cached grammar states are discarded.
#include "infer/sampling/form_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "infer/forms/forms.h"
#include "infer/sampling/ranking.h"
#include "tests/infer/forms/support.h"

namespace folio::infer {
namespace {

using forms::Form;
using forms::test::ListTokenizer;

std::shared_ptr<Form> form_of(std::string_view gbnf, const data::Tokenizer& tokenizer, size_t most_bytes) {
  return forms::test::form_of(
      tokenizer, [&](forms::Grammar& grammar) { return forms::gbnf_part(grammar, gbnf); }, most_bytes);
}

// The results of FormMask's functions after a history of tokens. `kept` has the allowed tokens' ids, used as logits; it
// is empty if keep_allowed() returns false.
struct Said {
  Allowed allowed;
  bool may_end;
  int32_t forced, likely;
  std::vector<float> kept;
  bool operator==(const Said&) const = default;
};

Said said(FormMask& mask, std::span<const int32_t> history, int32_t vocab_size) {
  Said said{.allowed = mask.allowed_after(history),
            .may_end = mask.may_end(history),
            .forced = mask.forced(history),
            .likely = mask.likely(history),
            .kept = {}};
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
  if (mask.keep_allowed(logits, history)) {
    std::ranges::copy_if(logits, std::back_inserter(said.kept), [](float logit) { return logit != kForbidden; });
  }
  return said;
}

// A form that evicts states gives the same masks as one with enough memory. Three interleaved sequences share it. They
// are truncated, as after rejected drafts, or restarted.
TEST(FormMask, EvictionDoesNotChangeMasks) {
  struct Case {
    const char* grammar;
    size_t most_bytes;
  };
  constexpr std::array kCases = {
      Case{"root ::= [ab]* \"a\" [ab]{40} \"cc\"?", 60'000},
      Case{"root ::= \"(\" (root | [abc])* \")\"", 4'500},
      Case{"root ::= list | word\nlist ::= \"(\" (root (\",\" root)*)? \")\"\nword ::= [ab]{1,30} | \"c\" word",
           16'000},
  };
  std::mt19937 random(1);
  for (const auto& [grammar, most_bytes] : kCases) {
    const ListTokenizer tokenizer(forms::test::random_texts(80, "aabbc()),", 4, random));
    const int32_t vocab_size = tokenizer.vocab_size();
    const auto roomy = form_of(grammar, tokenizer, size_t{1} << 30U);
    const auto small = form_of(grammar, tokenizer, most_bytes);
    const auto mask_of = [&](const auto& form) { return FormMask(form, tokenizer, {}, 2); };
    std::array small_masks = {mask_of(small), mask_of(small), mask_of(small)};
    std::array roomy_masks = {mask_of(roomy), mask_of(roomy), mask_of(roomy)};
    std::array<std::vector<int32_t>, 3> histories;
    histories.fill({1, 2});  // the prompts
    for (int turn = 0; turn < 600; ++turn) {
      const size_t text = random() % 3;
      std::vector<int32_t>& history = histories[text];
      if (random() % 8 == 0) history.resize(2 + random() % (history.size() - 1));
      const Said expected = said(roomy_masks[text], history, vocab_size);
      ASSERT_EQ(said(small_masks[text], history, vocab_size), expected) << grammar << ", turn " << turn;
      ASSERT_LE(small->n_bytes(), most_bytes);
      const auto token = static_cast<int32_t>(random() % static_cast<size_t>(vocab_size));
      ASSERT_EQ(small_masks[text].accepts(token, history), roomy_masks[text].accepts(token, history));
      if (expected.allowed != Allowed::Tokens || history.size() > 400) {
        history.resize(2);
        continue;
      }
      std::vector<float> kept = expected.kept;
      std::erase(kept, 0.0F);  // token 0, which ends the output
      history.push_back(static_cast<int32_t>(kept[random() % kept.size()]));
    }
    EXPECT_GT(small->generation(), 2U) << grammar;
    EXPECT_EQ(roomy->generation(), 0U) << grammar;
  }
}

TEST(FormMask, StatesLargerThanMemoryFailTheSequence) {
  const ListTokenizer tokenizer({"", "a", "b"});
  const auto form = form_of("root ::= \"b\" [ab]* \"a\" [ab]{100}", tokenizer, 1'500);
  FormMask mask(form, tokenizer, {}, 0);
  const std::vector<int32_t> begin = {2};
  std::vector<int32_t> text(100, 1);
  text[0] = 2;
  std::vector<float> logits(3);
  EXPECT_THROW(static_cast<void>(mask.allowed_after(text)), core::Error);
  EXPECT_FALSE(mask.keep_allowed(logits, text));
  EXPECT_TRUE(mask.keep_allowed(logits, begin));
}

}  // namespace
}  // namespace folio::infer
