#include "train/report/ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/random.h"
#include "data/corpus.h"
#include "data/tokenizers/char_tokenizer.h"
#include "tests/core/support.h"

namespace folio::train {
namespace {

using Tokens = std::vector<int32_t>;

// Returns random tokens in which lower ids are more frequent, so that n-grams repeat.
Tokens random_tokens(size_t n, int32_t vocab_size, uint64_t seed) {
  Tokens tokens(n);
  for (size_t i = 0; i < n; ++i) {
    const double u = core::random_uniform(seed, i);
    tokens[i] = static_cast<int32_t>(u * u * u * vocab_size);
  }
  return tokens;
}

// Computes n-gram probabilities by definition, without a trie: searches the whole text for every context.
class Definition {
 public:
  Definition(Tokens train, int32_t vocab_size) : train_(std::move(train)), vocab_size_(vocab_size) {}

  [[nodiscard]] double add_k(const Tokens& context, int32_t token, double k) const {
    const std::map<int32_t, int>& after = followers(context);
    double total = 0;
    for (const auto& [next, count] : after) total += count;
    const double count = after.contains(token) ? after.at(token) : 0;
    return total + k == 0 ? 1.0 / vocab_size_ : (count + k) / (total + k * vocab_size_);
  }

  [[nodiscard]] double witten_bell(const Tokens& context, int32_t token) const {
    const double lower =
        context.empty() ? 1.0 / vocab_size_ : witten_bell(Tokens(context.begin() + 1, context.end()), token);
    const std::map<int32_t, int>& after = followers(context);
    if (after.empty()) return lower;
    double total = 0;
    for (const auto& [next, count] : after) total += count;
    const double count = after.contains(token) ? after.at(token) : 0;
    const auto distinct = static_cast<double>(after.size());
    return (count + distinct * lower) / (total + distinct);
  }

 private:
  const std::map<int32_t, int>& followers(const Tokens& context) const {
    const auto [place, is_new] = followers_.try_emplace(context);
    if (is_new) {
      for (size_t i = 0; i + context.size() < train_.size(); ++i) {
        const auto at = train_.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::equal(context.begin(), context.end(), at)) ++place->second[train_[i + context.size()]];
      }
    }
    return place->second;
  }

  Tokens train_;
  int32_t vocab_size_;
  mutable std::map<Tokens, std::map<int32_t, int>> followers_;
};

Tokens context_before(const Tokens& tokens, size_t at, int order) {
  const size_t length = std::min(at, static_cast<size_t>(order - 1));
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(at);
  return {end - static_cast<std::ptrdiff_t>(length), end};
}

struct Setting {
  int32_t vocab_size;
  size_t train_size;
};
void PrintTo(const Setting& s, std::ostream* out) { *out << s.train_size << "_of_" << s.vocab_size; }

class NgramAgainstDefinition : public testing::TestWithParam<Setting> {};

TEST_P(NgramAgainstDefinition, LossesMatchTheDefinition) {
  const auto [vocab_size, train_size] = GetParam();
  const Tokens train = random_tokens(train_size, vocab_size, 3);
  const Tokens validation = random_tokens(120, vocab_size, 4);
  const NgramCounts counts(train, vocab_size, 8);
  const Definition definition(train, vocab_size);
  for (int order = 1; order <= 8; ++order) {
    double add = 0;
    double smooth = 0;
    for (size_t at = 0; at < validation.size(); ++at) {
      const Tokens context = context_before(validation, at, order);
      add -= std::log(definition.add_k(context, validation[at], 0.01)) / static_cast<double>(validation.size());
      smooth -= std::log(definition.witten_bell(context, validation[at])) / static_cast<double>(validation.size());
    }
    EXPECT_NEAR(counts.add_k_loss(validation, order, 0.01), add, 1e-10) << order;
    EXPECT_NEAR(counts.witten_bell_loss(validation, order), smooth, 1e-10) << order;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, NgramAgainstDefinition,
                         testing::Values(Setting{1, 10}, Setting{2, 1}, Setting{2, 2}, Setting{3, 500},
                                         Setting{66, 2000}, Setting{5000, 3000}),
                         testing::PrintToStringParamName());

TEST(Ngram, UnseenTokensCostInfinityWithoutSmoothing) {
  const NgramCounts counts(Tokens{0, 1, 0, 1}, 3, 2);
  EXPECT_TRUE(std::isinf(counts.add_k_loss(Tokens{0, 0}, 2, 0.0)));
  EXPECT_TRUE(std::isfinite(counts.witten_bell_loss(Tokens{0, 0, 2}, 2)));
}

TEST(Ngram, RejectsUncountedOrders) {
  const Tokens train{0, 1, 2, 1};
  EXPECT_ERROR(NgramCounts(train, 3, 0), "is 0, expected 1 to 16");
  EXPECT_ERROR(NgramCounts(train, 3, 17), "is 17, expected 1 to 16");
  const NgramCounts counts(train, 3, 2);
  EXPECT_ERROR(counts.witten_bell_loss(train, 3), "order 3 were not counted, expected 1 to 2");
  EXPECT_ERROR(counts.add_k_loss(train, 0, 0.1), "order 0 were not counted");
}

TEST(Ngram, TinyShakespeareMatchesPublishedLosses) {
  const std::string text = data::load_corpus("tinyshakespeare").text;  // `make test` downloads it
  const Tokens tokens = data::CharTokenizer::from_text(text, "TinyShakespeare").encode(text);
  const data::Splits splits = data::split_tokens(tokens, 0.1, 0.0);
  const NgramCounts counts(splits.train, 65, 5);
  EXPECT_NEAR(counts.witten_bell_loss(splits.validation, 5), 1.6688, 5e-5);
  EXPECT_NEAR(counts.add_k_loss(splits.validation, 5, 0.01), 1.7705, 5e-5);
}

}  // namespace
}  // namespace folio::train
