// Tests infer/engine/perplexity.h: windows are independent, every token except the first of a window is scored, and
// results don't depend on how rows are divided into steps.
#include "infer/engine/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/infer/support.h"

namespace folio::infer {
namespace {

TEST(NegativeLogLikelihood, MatchesLogSoftmax) {
  const std::vector<float> logits{1.0F, -2.0F, 0.5F, 3.0F};
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  for (int32_t i = 0; i < 4; ++i) {
    const double p = std::exp(static_cast<double>(logits[static_cast<size_t>(i)])) / total;
    EXPECT_NEAR(negative_log_likelihood(logits, i), -std::log(p), 1e-14);
  }
}

TEST(NegativeLogLikelihood, IsStableWhenExponentialsOverflow) {
  EXPECT_NEAR(negative_log_likelihood(std::vector<float>{1000.0F, 1000.0F}, 0), std::log(2.0), 1e-14);
  EXPECT_EQ(negative_log_likelihood(std::vector<float>{5000.0F, 0.0F}, 1), 5000.0);
  EXPECT_EQ(negative_log_likelihood(std::vector<float>{-5000.0F, -9000.0F}, 0), 0.0);
}

// 100,000 probabilities of 1e-9 sum to 1e-4. A sum in float would lose them, since 1 + 1e-9 rounds to 1.
TEST(NegativeLogLikelihood, AccumulatesInDouble) {
  std::vector<float> logits(100'000, std::log(1e-9F));
  logits[0] = 0.0F;
  EXPECT_NEAR(negative_log_likelihood(logits, 0), 1e-4, 1e-8);
}

class Perplexity : public ::testing::Test {
 protected:
  static core::ModelConfig config() {
    core::ModelConfig c = test::small_shapes()[0].config;
    c.context_length = 700;
    return c;
  }
  std::vector<double> scores(std::span<const int32_t> tokens, int64_t window) {
    std::vector<double> all;
    score_windows(engine_, tokens, window, [&](std::span<const double> some) {
      EXPECT_FALSE(some.empty());
      all.insert(all.end(), some.begin(), some.end());
      return true;
    });
    EXPECT_EQ(engine_.cache().blocks_in_use(), 0);
    return all;
  }
  // Returns the expected scores of all windows, computed with one forward pass per window.
  std::vector<double> expected(std::span<const int32_t> tokens, size_t window) const {
    const auto vocab = static_cast<size_t>(model_.config.vocab_size);
    std::vector<double> all;
    for (size_t first = 0; first < tokens.size(); first += window) {
      const auto text = tokens.subspan(first, std::min(window, tokens.size() - first));
      const auto logits = test::alone(model_, text);
      for (size_t i = 1; i < text.size(); ++i) {
        all.push_back(-negative_log_likelihood(std::span(logits).subspan((i - 1) * vocab, vocab), text[i]));
      }
    }
    return all;
  }

  core::StoredModel model_ = test::random_model(config());
  Cpu cpu_{{.n_threads = 1}};
  Engine engine_{model_, cpu_};
};

TEST_F(Perplexity, MatchesTheLogitsOfEachWindow) {
  const auto tokens = test::random_tokens(680, 3, 50);
  // Windows of 600 and 680 tokens need several steps. With 7, 339 and 226, the last window has 1, 2 and 2 tokens.
  for (const size_t window : {2U, 7U, 32U, 100U, 339U, 226U, 257U, 600U, 680U, 700U}) {
    const auto got = scores(tokens, static_cast<int64_t>(window));
    EXPECT_EQ(got, expected(tokens, window)) << "windows of " << window;
    EXPECT_EQ(got.size(), static_cast<size_t>(scored_tokens(680, static_cast<int64_t>(window))));
  }
}

TEST_F(Perplexity, StopsOnRequest) {
  int calls = 0;
  score_windows(engine_, test::random_tokens(100, 5, 50), 10, [&](std::span<const double>) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(engine_.cache().blocks_in_use(), 0);
}

TEST_F(Perplexity, RejectsUnscorableInput) {
  const auto tokens = test::random_tokens(20, 5, 50);
  const auto ignore = [](std::span<const double>) { return true; };
  EXPECT_ERROR(score_windows(engine_, tokens, 1, ignore), "window");
  EXPECT_ERROR(score_windows(engine_, tokens, 701, ignore), "700");
  EXPECT_ERROR(score_windows(engine_, std::span(tokens).first(1), 8, ignore), "1 tokens");
  EXPECT_ERROR(score_windows(engine_, {}, 8, ignore), "0 tokens");
  const auto damaged = test::damaged_model(config());
  Engine engine(damaged, cpu_);
  EXPECT_ERROR(score_windows(engine, tokens, 8, ignore), "not finite");
  engine.add({.prompt = tokens, .on_log_probs = [](std::span<const double>) {}});
  for (int i = 0; i < 2; ++i) EXPECT_ERROR(engine.step(), "not finite");
}

}  // namespace
}  // namespace folio::infer
