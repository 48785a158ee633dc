// Tests infer/cuda/sample.h: drawn tokens equal those of the host's sampler, except where rounding decides. A row's
// token depends neither on the order of threads and blocks nor on the other rows of the launch.
#include "infer/cuda/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "core/random.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/support.h"

namespace folio::infer::gpu {
namespace {

using test::on_device;
using test::on_host;
using test::unwritten;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  std::vector<float> logits;  ///< (vocab_size)
  SamplerOptions options;
  std::vector<int32_t> never{};
  std::vector<int32_t> history{};
  int64_t position = 0;
};

// Returns the tokens drawn for `cases`, which must have the same vocabulary size, in one launch.
std::vector<int32_t> drawn(const std::vector<Case>& cases) {
  const size_t vocab_size = cases.front().logits.size();
  std::vector<float> logits;
  std::vector<DrawInput> draws;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const size_t row = cases.size() - 1 - i;
    logits.insert(logits.begin(), c.logits.begin(), c.logits.end());
    draws.push_back(draw_input(row, c.options, c.never, c.history, c.position, vocab_size, ids));
  }
  ids.push_back(0);  // an allocation must not be empty
  Stream stream(0);
  const DeviceMemory device_logits = on_device(stream, logits);
  const DeviceMemory device_draws = on_device(stream, draws);
  const DeviceMemory device_ids = on_device(stream, ids);
  const DeviceMemory workspace = unwritten(stream, draw_workspace_bytes(cases.size()));
  const DeviceMemory tokens = unwritten(stream, cases.size() * sizeof(int32_t));
  stream.fill(workspace.as<uint8_t>(), 0, workspace.bytes());
  const auto draw = [&] {
    stream.fill(tokens.as<uint8_t>(), 0x77, tokens.bytes());
    draw_tokens(stream, device_logits.as<float>(), vocab_size, device_draws.as<DrawInput>(), device_ids.as<int32_t>(),
                cases.size(), workspace.as<void>(), tokens.as<int32_t>());
    return on_host<int32_t>(stream, tokens);
  };
  const auto first = draw();
  EXPECT_TRUE(infer::test::same_bits(on_host<float>(stream, device_logits), logits)) << "logits stay as they are";
  if (cases.size() <= 16) {
    EXPECT_EQ(draw(), first) << "a draw leaves the workspace ready for the next";
  }
  return first;
}

std::vector<int32_t> drawn_by_host(const std::vector<Case>& cases) {
  std::vector<int32_t> tokens;
  for (const Case& c : cases) {
    Sampler sampler(c.options, c.never);
    std::vector<float> logits = c.logits;
    tokens.push_back(sampler.draw(logits, c.history, c.position));
  }
  return tokens;
}

// Returns true if rounding may have decided that `token` is drawn: a cumulative probability is within `margin` of
// top-p, a weight (1 for the largest logit) differs from min-p by less than the fraction `margin`, or the random number
// is in the token's interval, widened by `margin`.
bool is_near_a_border(const Case& c, int32_t token, double margin) {
  const SamplerOptions& o = c.options;
  if (token < 0 || o.temperature == 0.0F) return false;
  std::vector<float> logits = c.logits;
  const auto n_recent = std::min(c.history.size(), static_cast<size_t>(o.repeat_last_n));
  std::vector<int32_t> recent(c.history.end() - static_cast<std::ptrdiff_t>(n_recent), c.history.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const int32_t id : recent) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0.0F ? logit / o.repetition_penalty : logit * o.repetition_penalty;
  }
  for (const int32_t id : c.never) logits[static_cast<size_t>(id)] = -kInf;
  std::vector<size_t> order;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != -kInf) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(o.top_k)));
  const double largest = logits[order.front()];
  const auto weight = [&](size_t id, double temperature) { return std::exp((logits[id] - largest) / temperature); };
  if (o.top_p < 1.0F) {
    double total = 0.0;
    for (const size_t id : order) total += weight(id, 1.0);
    double sum = 0.0;
    size_t n = 0;
    while (n < order.size() && sum < o.top_p) {
      sum += weight(order[n++], 1.0) / total;
      if (std::abs(sum - o.top_p) < margin) return true;
    }
    order.resize(n);
  }
  double total = 0.0;
  std::erase_if(order, [&](size_t id) { return weight(id, 1.0) < o.min_p * (1.0 - margin); });
  for (const size_t id : order) {
    if (std::abs(weight(id, 1.0) - o.min_p) < margin * o.min_p) return true;
    total += weight(id, o.temperature);
  }
  const double uniform = core::random_uniform(o.seed, static_cast<uint64_t>(c.position));
  double sum = 0.0;
  for (const size_t id : order) {
    const double before = sum;
    sum += weight(id, o.temperature) / total;
    if (id == static_cast<size_t>(token)) return uniform > before - margin && uniform < sum + margin;
  }
  return false;
}

// Expects the drawn tokens to equal the host's unless rounding decides. Returns the number of tokens that differ.
size_t expect_hosts_tokens(const std::vector<Case>& cases) {
  const auto expected = drawn_by_host(cases);
  const auto got = drawn(cases);
  size_t n_differ = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (got[i] == expected[i]) continue;
    ++n_differ;
    const SamplerOptions& o = cases[i].options;
    EXPECT_TRUE(is_near_a_border(cases[i], got[i], 1e-6))
        << "token " << got[i] << ", but the host draws " << expected[i] << " of " << cases[i].logits.size()
        << " at position " << cases[i].position << ", temperature " << o.temperature << ", top-k " << o.top_k
        << ", top-p " << o.top_p << ", min-p " << o.min_p << ", penalty " << o.repetition_penalty;
  }
  return n_differ;
}

// Returns random logits. `seed` selects one of eight spreads (all equal, up to magnitudes of 1e30, or with one
// outlier), one of four offsets, and whether there are ties.
std::vector<float> made_up_logits(uint64_t seed, size_t n) {
  const double spreads[] = {0.0, 0.5, 2.0, 3.0, 8.0, 40.0, 1e30, 3.0};
  const double offsets[] = {0.0, 5.0, -100.0, 400.0};
  const double spread = spreads[seed % 8];
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) {
    double normal = -2.0;  // the sum of four uniform numbers has mean 2 and variance 1/3
    for (uint64_t k = 0; k < 4; ++k) normal += core::random_uniform(seed, i * 4 + k);
    if (seed % 16 >= 8) normal = std::round(normal * 4.0) / 4.0;
    logits[i] = static_cast<float>(offsets[seed / 16 % 4] + 1.7 * normal * spread);
  }
  if (seed % 8 == 7) logits[seed % n] += 25.0F;  // makes one token nearly certain
  return logits;
}

uint64_t below(uint64_t& state, uint64_t n) { return core::random_below(0x5A17, state++, n); }

template <typename T, size_t n>
T one_of(const T (&values)[n], uint64_t& state) {
  return values[below(state, n)];
}

Case made_up_case(uint64_t number, size_t vocab_size) {
  uint64_t state = number * 64;
  Case c{.logits = made_up_logits(number, vocab_size),
         .options = {.temperature = one_of({1.0F, 0.8F, 0.1F, 2.0F, 100.0F, 1e-3F, 0.0F}, state),
                     .top_k = one_of({0, 0, 1, 5, 40, 700}, state),
                     .top_p = one_of({1.0F, 1.0F, 0.95F, 0.9F, 0.5F, 1e-4F, 0.99999F}, state),
                     .min_p = one_of({0.0F, 0.0F, 0.05F, 1.0F, 1e-9F}, state),
                     .repetition_penalty = one_of({1.0F, 1.0F, 1.1F, 2.0F, 0.5F}, state),
                     .repeat_last_n = one_of({0, 3, 64, 100000}, state),
                     .seed = below(state, 1000)},
         .position = static_cast<int64_t>(below(state, 100000))};
  for (uint64_t i = below(state, 100); i > 0; --i) c.history.push_back(static_cast<int32_t>(below(state, vocab_size)));
  const auto n_never = below(state, 4) > 0 ? 0 : below(state, std::min<uint64_t>(vocab_size, 20));
  for (uint64_t i = 0; i < n_never; ++i) c.never.push_back(static_cast<int32_t>(below(state, vocab_size)));
  return c;
}

// The race detector is ten times slower, so the tests built with it run fewer draws.
#ifdef FOLIO_FEW_DRAWS
constexpr size_t kOneOf = 10;
#else
constexpr size_t kOneOf = 1;
#endif

std::vector<Case> made_up_cases(uint64_t first, size_t n, size_t vocab_size) {
  std::vector<Case> cases;
  for (size_t i = 0; i < n; ++i) cases.push_back(made_up_case(first + i, vocab_size));
  return cases;
}

// The environment variable FOLIO_DRAWS sets the number of draws from 500 tokens.
TEST(Sample, DrawsTheTokensOfTheHost) {
  const char* many = std::getenv("FOLIO_DRAWS");
  size_t n_draws = many == nullptr ? 500 / kOneOf : static_cast<size_t>(std::atoll(many));
  size_t n_differ = 0;
  for (size_t i = 0; i < n_draws; i += 50) n_differ += expect_hosts_tokens(made_up_cases(1000000 + i, 50, 500));
  for (const size_t vocab_size : {1, 2, 31, 66, 1000, 2048, 2049}) {
    const size_t n = (vocab_size < 100 ? 300 : 100) / kOneOf;
    n_differ += expect_hosts_tokens(made_up_cases(vocab_size * 1000, n, vocab_size));
    n_draws += n;
  }
  std::printf("%zu of %zu draws differ from the host's, all at borders\n", n_differ, n_draws);
}

TEST(Sample, DrawsFromLargeVocabularies) {
  expect_hosts_tokens(made_up_cases(7, 32 / kOneOf, 49152));
  expect_hosts_tokens(made_up_cases(39, 9 / std::min<size_t>(kOneOf, 9), 151936));
}

TEST(Sample, GreedyTiesSelectTheLowestId) {
  const SamplerOptions greedy{.temperature = 0.0F, .top_k = 3, .top_p = 0.5F};
  const auto token = [&](std::vector<float> logits) { return drawn({{std::move(logits), greedy}})[0]; };
  EXPECT_EQ(token({1, 3, 2}), 1);
  EXPECT_EQ(token({-1, -3, -2}), 0);
  EXPECT_EQ(token({1, 4, 4, 4}), 1);
  EXPECT_EQ(token({-0.0F, 0.0F}), 0);
  EXPECT_EQ(token({0.0F, -0.0F}), 0);
  EXPECT_EQ(token({7}), 0);
  std::vector<float> wide(5000, -2.0F);
  wide[4999] = wide[2048] = -1.0F;
  EXPECT_EQ(token(wide), 2048);
}

// If logits are equal, top-k keeps the lowest token ids, however the row is divided into blocks.
TEST(Sample, TopKKeepsTheLowestIdsOfEquals) {
  std::vector<float> logits(7000, 1.0F);
  logits[6000] = 2.0F;
  for (const int32_t top_k : {2, 100, 3000, 6999, 7000, 9000}) {
    std::vector<Case> cases;
    for (int64_t position = 0; position < (kOneOf > 1 ? 1 : 4); ++position) {
      cases.push_back(
          {.logits = logits, .options = {.temperature = 1.0F, .top_k = top_k, .top_p = 1.0F}, .position = position});
    }
    for (const int32_t token : drawn(cases)) EXPECT_TRUE(token == 6000 || token < top_k - 1) << token << ' ' << top_k;
    expect_hosts_tokens(cases);
  }
}

TEST(Sample, ReportsUndrawableRows) {
  for (const size_t vocab_size : {3, 5000}) {
    for (const float temperature : {0.0F, 1.0F}) {
      std::vector<float> fine(vocab_size, 1.0F);
      fine[1] = 2.0F;
      std::vector<int32_t> all(vocab_size);
      std::iota(all.begin(), all.end(), 0);
      const SamplerOptions options{.temperature = temperature};
      std::vector<Case> cases{{fine, options}, {fine, options, all}, {fine, options, {all.begin() + 1, all.end()}}};
      for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
        for (const size_t at : {size_t{0}, vocab_size - 1}) {
          cases.push_back({fine, options, {static_cast<int32_t>(at)}});
          cases.back().logits[at] = wrong;
        }
      }
      const auto tokens = drawn(cases);
      EXPECT_EQ(tokens, drawn_by_host(cases));
      EXPECT_EQ(tokens[1], kNothingLeft);
      EXPECT_EQ(tokens[2], 0);
      for (size_t i = 3; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], kNotFinite);
    }
  }
}

TEST(Sample, DrawsFromExtremeFiniteLogits) {
  const float huge = std::numeric_limits<float>::max();
  std::vector<Case> cases;
  for (int64_t i = 0; i < 8; ++i) {
    cases.push_back({{-huge, huge, 0, -huge}, {.temperature = 1.0F, .top_p = 1.0F}, {}, {}, i});
    cases.push_back({{huge, huge, -huge, 1e-44F}, {.temperature = 1.0F, .top_p = 0.9F}, {}, {}, i});
    cases.push_back({{0, 1, 2, 3}, {.temperature = std::numeric_limits<float>::denorm_min()}, {}, {}, i});
    cases.push_back({{0, -1e-44F, -3e-44F, -1.0F}, {.temperature = 1e-44F, .top_p = 1.0F}, {}, {}, i});
    cases.push_back({{huge, 1, huge, 0}, {.temperature = 1.0F, .repetition_penalty = 0.01F}, {}, {0, 1}, i});
  }
  const auto tokens = drawn(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(tokens[i] >= 0 && tokens[i] < 4) << i;
    if (i % 5 == 0) {
      EXPECT_EQ(tokens[i], 1);
    }
    if (i % 5 == 2) {
      EXPECT_EQ(tokens[i], 3);
    }
  }
}

// The first candidates could not contain that many tokens, so a draw would read the whole row again and again.
TEST(Sample, TopKOfAllTokensIsOff) {
  std::vector<int32_t> ids;
  EXPECT_EQ(draw_input(0, {.top_k = 4}, {}, {}, 0, 5, ids).top_k, 4U);
  EXPECT_EQ(draw_input(0, {.top_k = 5}, {}, {}, 0, 5, ids).top_k, 0U);
}

TEST(Sample, RejectsIdsWithoutALogit) {
  std::vector<int32_t> ids;
  for (const int32_t wrong : {-1, 5, std::numeric_limits<int32_t>::max()}) {
    const std::vector<int32_t> some{1, wrong};
    EXPECT_ERROR(draw_input(0, {}, some, {}, 0, 5, ids),
                 fmt::format("token {} is outside the model's vocabulary of 5", wrong));
    EXPECT_ERROR(draw_input(0, {.repetition_penalty = 2.0F}, {}, some, 0, 5, ids),
                 "outside the model's vocabulary of 5");
  }
}

TEST(Sample, DrawsDoNotDependOnThreadOrder) {
  const auto cases = made_up_cases(4000, 12, 4500);
  host::require_same_in_all_orders([&] { return test::bytes_of(drawn(cases)); });
}

TEST(Sample, DrawsAreIndependentOfTheBatch) {
  const auto cases = made_up_cases(9000, 24 / kOneOf, 2500);
  const auto together = drawn(cases);
  for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(drawn({cases[i]})[0], together[i]) << i;
}

// A recorded draw reads all its inputs from device memory, so a replay uses new logits, options and ids.
TEST(Sample, ReplayedDrawsReadNewInputs) {
  constexpr size_t kVocab = 3000;
  constexpr size_t kDraws = 4;
  Stream stream(0);
  const DeviceMemory logits = unwritten(stream, kDraws * kVocab * sizeof(float));
  const DeviceMemory draws = unwritten(stream, kDraws * sizeof(DrawInput));
  const DeviceMemory ids = unwritten(stream, kDraws * 200 * sizeof(int32_t));
  const DeviceMemory workspace = unwritten(stream, draw_workspace_bytes(kDraws));
  const DeviceMemory tokens = unwritten(stream, kDraws * sizeof(int32_t));
  stream.fill(workspace.as<uint8_t>(), 0, workspace.bytes());
  Recording recording = stream.record([&] {
    draw_tokens(stream, logits.as<float>(), kVocab, draws.as<DrawInput>(), ids.as<int32_t>(), kDraws,
                workspace.as<void>(), tokens.as<int32_t>());
  });
  for (uint64_t step = 0; step < 6; ++step) {
    const auto cases = made_up_cases(500 + step * kDraws, kDraws, kVocab);
    std::vector<DrawInput> inputs;
    std::vector<int32_t> all_ids;
    for (size_t i = 0; i < kDraws; ++i) {
      const Case& c = cases[i];
      stream.copy_in(logits.as<float>() + i * kVocab, c.logits.data(), kVocab * sizeof(float));
      inputs.push_back(draw_input(i, c.options, c.never, c.history, c.position, kVocab, all_ids));
    }
    stream.copy_in(draws.as<DrawInput>(), inputs.data(), draws.bytes());
    stream.copy_in(ids.as<int32_t>(), all_ids.data(), all_ids.size() * sizeof(int32_t));
    stream.run(recording);
    EXPECT_EQ(on_host<int32_t>(stream, tokens), drawn(cases)) << "step " << step;
  }
}

}  // namespace
}  // namespace folio::infer::gpu
