// Tests that rendering a chat counts its steps, such as loops and name lookups, and stops when a budget is exceeded.
#include <gtest/gtest.h>

#include <vector>

#include "data/chat/chat_template.h"

namespace folio::data {
namespace {

std::vector<ChatMessage> messages(size_t n) {
  return std::vector<ChatMessage>(n, {.role = ChatRole::User, .content = "text"});
}

uint64_t steps_of(const ChatTemplate& chat, size_t n_messages) {
  const core::WorkBudget budget;
  EXPECT_FALSE(chat.render(messages(n_messages), "", "", {.budget = budget}).empty());
  return budget.spent();
}

TEST(ChatWork, LoopsBeyondTheBudgetAreRejected) {
  const ChatTemplate square("{% for a in messages %}{% for b in messages %}{{ b.content }}{% endfor %}{% endfor %}",
                            "t");
  const uint64_t steps = steps_of(square, 100);
  EXPECT_GT(steps, 100U * 100U);
  EXPECT_NO_THROW(static_cast<void>(square.render(messages(100), "", "", {.budget = core::WorkBudget(steps)})));
  EXPECT_THROW(static_cast<void>(square.render(messages(100), "", "", {.budget = core::WorkBudget(steps - 1)})),
               core::Error);
}

TEST(ChatWork, NameLookupCountsEachVariable) {
  std::string names;
  for (int i = 0; i < 800; ++i) names += "{% set v" + std::to_string(i) + " = 1 %}";
  const std::string loop = "{% for a in messages %}{{ v799 }}{% endfor %}";
  const uint64_t among_few = steps_of(ChatTemplate("{% set v799 = 1 %}" + loop, "t"), 200);
  EXPECT_GT(steps_of(ChatTemplate(names + loop, "t"), 200), among_few + 200 * 50);
}

}  // namespace
}  // namespace folio::data
