// Tests of plan: the rows of one request, max_rows, order of arrival, and when waiting requests start.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

std::string listed(const std::vector<size_t>& rows) {
  std::string text;
  for (const size_t n : rows) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

void expect_plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running,
                 const std::vector<size_t>& expected, const std::string& why) {
  const auto rows = plan(requests, max_rows, max_running);
  if (rows == expected) return;
  ADD_FAILURE() << "The rows are " << listed(rows) << ", but have to be " << listed(expected) << ".\n" << why;
}

TEST(Plan, ARequestGetsWhatIsMissing) {
  expect_plan({{21, 20}}, 8, 4, {1}, "It has 21 tokens and the keys and values of 20: one row is missing, not all 21.");
}

TEST(Plan, ALongPromptIsCut) {
  expect_plan({{100, 0}}, 8, 4, {8},
              "The prompt has 100 tokens, and a step has 8 rows: it takes 8 of them, and goes on in the "
              "next step. 0: one that does not fit as a whole would never run.");
  expect_plan({{21, 20}, {100, 6}}, 8, 4, {1, 7},
              "6 of the 100 tokens were computed in an earlier step: 94 are missing, and 7 rows are left. 1: a request "
              "that has begun is not always at its last token.");
}

TEST(Plan, AllTogetherKeepTheLimit) {
  expect_plan({{21, 20}, {33, 32}, {9, 8}}, 2, 4, {1, 1, 0},
              "The step has 2 rows for all of them together, so the third gets none. If it does, what was left went "
              "from 0 below "
              "0, which in a size_t is a huge number: take the smaller one of what is left and what is needed, and "
              "subtract that.");
}

TEST(Plan, TheOldestComesFirst) {
  expect_plan(
      {{100, 0}, {21, 20}}, 8, 4, {8, 0},
      "The first request came first. It is not the one with the fewest rows that is served first, and the rows are not "
      "shared evenly: the oldest would wait for ever behind those that come later.");
}

TEST(Plan, OneThatWaitsBegins) {
  expect_plan({{21, 20}, {5, 0}}, 8, 4, {1, 5},
              "Rows are left when those that run have theirs, and fewer run than may.");
}

TEST(Plan, NoMoreRunThanMay) {
  expect_plan(
      {{21, 20}, {5, 0}, {3, 0}}, 8, 2, {1, 5, 0},
      "Two may run: the first does, the second begins, and the third waits. Those that run and those that begin count "
      "together.");
}

TEST(Plan, ThoseThatRunCountWhereverTheyStand) {
  expect_plan(
      {{5, 0}, {21, 20}, {33, 32}}, 8, 2, {0, 1, 1},
      "Two run already, younger ones, as after a preemption. So the first can't begin: count those that run before you "
      "let one begin.");
}

}  // namespace
}  // namespace folio::exercises
