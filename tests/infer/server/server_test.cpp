// Tests infer/server without a network: rejected requests, max_tokens, top log-probabilities, latency quantiles.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/tokenizers/char_tokenizer.h"
#include "infer/server/api.h"
#include "infer/server/metrics.h"
#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

class ApiTest : public ::testing::Test {
 protected:
  data::CharTokenizer tokenizer_ = data::CharTokenizer::from_text("abc", "abc.txt");
  ServedModel served_{.name = "m", .context = 100'000, .tokenizer = tokenizer_};

  CompletionRequest parse(const Json& body, uint64_t seed = 1) {
    return parse_completion(body, served_, seed, body.dump());
  }
};

TEST_F(ApiTest, RejectsHugeAnswers) {
  Json body = {{"prompt", "a"}, {"logprobs", 20}, {"max_tokens", 10'000}, {"n", 10}};
  EXPECT_NO_THROW(static_cast<void>(parse(body)));
  body["n"] = 100;
  try {
    static_cast<void>(parse(body));
    FAIL() << "it was accepted";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.json()["error"]["param"], "logprobs");
    EXPECT_NE(std::string(error.what()).find("1000000 tokens"), std::string::npos) << error.what();
  }
  body.erase("logprobs");
  EXPECT_NO_THROW(static_cast<void>(parse(body)));
}

TEST_F(ApiTest, LimitsMaxTokensToTheContext) {
  const auto request = parse({{"prompt", "abc"}, {"max_tokens", 1'000'000}});
  EXPECT_EQ(request.options.max_tokens, 100'000 - 3);
  EXPECT_EQ(parse({{"prompt", "abc"}}).options.max_tokens, 16);
  EXPECT_EQ(parse({{"prompt", "abc"}}, 77).options.sampler.seed, 77U);
}

// Parses a request. Returns the code of its error, or the parameter that the error names if it has no code. Returns ""
// if the request is valid.
std::string code_of(const Json& body, const ServedModel& served, const ParseOptions& options = {}) {
  try {
    static_cast<void>(parse_completion(body, served, 1, body.dump(), options));
  } catch (const ApiError& error) {
    const Json json = error.json()["error"];
    return json["code"].is_null() ? json["param"] : json["code"];
  }
  return "";
}

TEST_F(ApiTest, ChecksCheapFieldsBeforeCompilingForms) {
  served_.context = 10;
  served_.forms = std::make_shared<AnswerForms>(tokenizer_, served_.chat_template);
  const core::WorkBudget budget(100);
  const ParseOptions full{.budget = budget,
                          .admit = [](size_t, size_t) { throw ApiError(429, "the queue is full", "", "queue"); }};
  const std::string costly = "(a|b){500}";
  EXPECT_EQ(code_of({{"prompt", "a"}, {"model", "x"}, {"guided_regex", costly}}, served_, {.budget = budget}),
            "model_not_found");
  EXPECT_EQ(code_of({{"prompt", "a"}, {"n", 1000}, {"guided_regex", costly}}, served_, {.budget = budget}), "n");
  EXPECT_EQ(code_of({{"prompt", "aaaaaaaaaaaa"}, {"guided_regex", costly}}, served_, {.budget = budget}),
            "context_length_exceeded");
  EXPECT_EQ(code_of({{"prompt", "aaaaaaaaaaaa"}, {"guided_regex", costly}}, served_, full), "queue");
  EXPECT_EQ(code_of({{"prompt", "a"}, {"guided_regex", costly}}, served_, {.budget = budget}), "too_much_work");
  EXPECT_EQ(code_of({{"prompt", std::string(101, 'a')}}, served_, {.budget = core::WorkBudget(100)}), "too_much_work");
}

TEST(TokenLogprob, TopLogprobsAreSortedWithTiesById) {
  const std::vector<float> logits = {1.0F, 3.0F, -2.0F, 3.0F, 0.5F};
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const TokenLogprob found = token_logprob(4, logits, 3);
  EXPECT_NEAR(*found.logprob, 0.5 - std::log(total), 1e-12);
  ASSERT_EQ(found.top.size(), 3U);
  const int32_t expected[] = {1, 3, 0};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.top[i].token, expected[i]);
    EXPECT_NEAR(found.top[i].logprob, logits[static_cast<size_t>(expected[i])] - std::log(total), 1e-12);
  }
  EXPECT_TRUE(token_logprob(0, logits, 0).top.empty());
  EXPECT_EQ(token_logprob(0, logits, 20).top.size(), logits.size());
}

TEST(Latencies, QuantilesCoverRecentValues) {
  Latencies times;
  EXPECT_TRUE(times.quantiles_ms().is_null());
  for (int i = 0; i < 1000; ++i) times.add(100.0);
  for (int i = 1; i <= 1024; ++i) times.add(i * 1e-3);
  EXPECT_NEAR(times.quantiles_ms()["median"].get<double>(), 512, 1);
  EXPECT_NEAR(times.quantiles_ms()["p99"].get<double>(), 1014, 2);
  const std::string text = times.text("t", "Latencies.");
  EXPECT_NE(text.find("t_bucket{le=\"0.1\"} 100\n"), std::string::npos) << text;
  EXPECT_NE(text.find("t_bucket{le=\"+Inf\"} 2024\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace folio::infer::server
