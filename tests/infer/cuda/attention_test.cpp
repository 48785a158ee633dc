// Tests attention on the GPU, with positions split into parts or processed sequentially. Outputs are within rounding
// errors of the formula. Split and sequential attention give the same bits at every length, head width and window, for
// any division of rows into work items and batches, any order of threads, and any values in unused cache positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/float16.h"
#include "infer/cuda/kernels.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/support.h"

namespace folio::infer::gpu {
namespace {

using infer::test::random_floats;
using infer::test::same_bits;
using test::on_device;
using test::on_host;
using test::unwritten;

struct Case {
  uint32_t n_kv_heads = 2;
  uint32_t queries = 2;  ///< query heads per key/value head
  uint32_t head_dim = 32;
  bool half = false;
  std::vector<int32_t> lengths{1};  ///< length of each sequence, in positions
  std::vector<int32_t> n_rows{1};   ///< number of rows of each sequence, which are at its last positions
  int32_t window = 1 << 20;
  int32_t rows_of_item = 0;  ///< maximum number of rows of a work item; 0: no limit
  double scale_of_queries = 1.0;
  float cap = 0.0F;
  double scale_of_sinks = 0.0;  ///< scale of the random attention sinks; 0: no sinks
  uint32_t latent_rank = 0;     ///< latent attention: a value is a key's first latent_rank elements; 0: not latent
};

// Queries, and the keys and values of some sequences in a KV cache whose unused positions are NaN.
class Setting {
 public:
  explicit Setting(const Case& c) : case_(c) {
    heads_ = {.n_heads = c.n_kv_heads * c.queries, .n_kv_heads = c.n_kv_heads, .head_dim = c.head_dim};
    cache_ = {.n_layers = 2,
              .n_kv_heads = c.n_kv_heads,
              .head_dim = c.head_dim,
              .half = c.half,
              .latent_rank = c.latent_rank};
    int32_t n_blocks = 0;
    for (const int32_t length : c.lengths) n_blocks += (length + 31) / 32;
    bytes_.assign(static_cast<size_t>(n_blocks) * cache_.block_bytes(), 0xFF);
    int32_t next = n_blocks;  // blocks are allocated from the end
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      starts_.push_back(static_cast<int32_t>(blocks_.size()));
      for (int32_t b = 0; b < (c.lengths[s] + 31) / 32; ++b) blocks_.push_back(--next);
      const size_t numbers = static_cast<size_t>(c.lengths[s]) * c.n_kv_heads * c.head_dim;
      keys_.push_back(random_floats(numbers, 10 + s));
      values_.push_back(c.latent_rank > 0 ? keys_.back() : random_floats(numbers, 20 + s));
      for (int32_t p = 0; p < (c.lengths[s] + 31) / 32 * 32; ++p) store(s, p);
      for (int32_t p = c.lengths[s] - c.n_rows[s]; p < c.lengths[s]; ++p) {
        positions_.push_back(p);
        tables_.push_back(starts_.back());
        sequence_.push_back(s);
      }
    }
    sinks_ = random_floats(heads_.n_heads, 4, c.scale_of_sinks);
    query_ = random_floats(positions_.size() * heads_.n_heads * c.head_dim, 3, c.scale_of_queries);
  }

  [[nodiscard]] size_t n_rows() const { return positions_.size(); }
  [[nodiscard]] size_t width() const { return size_t{heads_.n_heads} * heads_.head_dim; }

  /// Runs attention on the emulator or GPU, with a row's positions split into parts or processed sequentially, and at
  /// most `shared_bytes` of shared memory per block. Returns the output rows.
  std::vector<float> run(bool in_parts, size_t shared_bytes = size_t{99} << 10U) {
    Stream stream(0);
    const auto items = items_of(!in_parts);
    const DeviceMemory memory = on_device(stream, bytes_);
    const DeviceMemory positions = on_device(stream, positions_);
    const DeviceMemory tables = on_device(stream, tables_);
    const DeviceMemory blocks = on_device(stream, blocks_);
    const DeviceMemory device_items = on_device(stream, items);
    const DeviceMemory query = on_device(stream, query_);
    const DeviceMemory out = unwritten(stream, query_.size() * sizeof(float));
    cache_.data = memory.as<uint8_t>();
    Attention in;
    in.rows = {.positions = positions.as<int32_t>(),
               .tables = tables.as<int32_t>(),
               .blocks = blocks.as<int32_t>(),
               .n_rows = static_cast<uint32_t>(n_rows())};
    in.heads = heads_;
    in.cache = cache_;
    in.layer = 1;
    in.window = case_.window;
    in.items = device_items.as<AttentionItem>();
    in.n_items = static_cast<uint32_t>(items.size());
    in.n_slots = max_slots_;
    in.max_parts = static_cast<uint32_t>(*std::max_element(case_.lengths.begin(), case_.lengths.end())) / 64 + 3;
    in.scale = 1.0F / std::sqrt(static_cast<float>(case_.head_dim));
    in.query = query.as<float>();
    in.out = out.as<float>();
    in.shared_bytes = shared_bytes;
    in.cap = case_.cap;
    const DeviceMemory sinks = on_device(stream, sinks_);
    if (case_.scale_of_sinks > 0.0) in.sinks = sinks.as<float>();
    const DeviceMemory partials = unwritten(stream, partial_bytes(in));
    const DeviceMemory counters = on_device(stream, std::vector<uint32_t>(items.size() * heads_.n_kv_heads));
    in.partials = in_parts ? partials.as<float>() : nullptr;
    in.counters = counters.as<uint32_t>();
    attention(stream, in);
    EXPECT_EQ(on_host<uint32_t>(stream, counters), std::vector<uint32_t>(items.size() * heads_.n_kv_heads));
    return on_host<float>(stream, out);
  }

  /// Expects each output to be within rounding errors of the formula in double precision.
  void expect_near(const std::vector<float>& got) const {
    const size_t dim = heads_.head_dim;
    for (size_t row = 0; row < n_rows(); ++row) {
      const auto& keys = keys_[sequence_[row]];
      const auto& values = values_[sequence_[row]];
      for (size_t head = 0; head < heads_.n_heads; ++head) {
        const float* q = &query_[row * width() + head * dim];
        const size_t kv = head / heads_.queries();
        const int32_t last = positions_[row];
        const int32_t first = std::max(0, last + 1 - case_.window);
        std::vector<double> scores;
        double largest = 0.0;  // largest Σ |q_i k_i| of a position
        double largest_value = 0.0;
        for (int32_t p = first; p <= last; ++p) {
          double score = 0.0;
          double magnitudes = 0.0;
          for (size_t d = 0; d < dim; ++d) {
            const double product = static_cast<double>(q[d]) * kept(keys[index(p, kv, d)]);
            score += product;
            magnitudes += std::abs(product);
            largest_value = std::max(largest_value, std::abs(static_cast<double>(kept(values[index(p, kv, d)]))));
          }
          score /= std::sqrt(static_cast<double>(dim));
          const double cap = case_.cap;
          scores.push_back(cap > 0.0 ? cap * std::tanh(score / cap) : score);
          largest = std::max(largest, magnitudes / std::sqrt(static_cast<double>(dim)));
        }
        double most = *std::max_element(scores.begin(), scores.end());
        const bool has_sink = case_.scale_of_sinks > 0.0;
        if (has_sink) most = std::max<double>(most, sinks_[head]);
        double sum = has_sink ? std::exp(sinks_[head] - most) : 0.0;
        for (double& s : scores) sum += s = std::exp(s - most);
        // An absolute error of a score is a relative error of e^score, in the softmax's numerator and denominator.
        // `of_weight` bounds the other errors: rounding of the weights for the product with V, of sums and of e^x.
        const bool rounded = case_.half;
        // A cap doesn't increase the error of a score, but computing tanh adds an error proportional to the cap.
        const double of_score = largest * ((rounded ? 0x1p-11 : 3 * 0x1p-20) + static_cast<double>(dim + 8) * 0x1p-23) +
                                case_.cap * 16 * 0x1p-24;
        const double of_weight = (rounded ? 0x1p-11 : 3 * 0x1p-20) + static_cast<double>(scores.size() + 64) * 0x1p-22;
        const double bound = largest_value * (2 * (std::exp(of_score) - 1) + of_weight) + 1e-7;
        for (size_t d = 0; d < cache_.value_dim(); ++d) {
          double value = 0.0;
          for (int32_t p = first; p <= last; ++p) {
            value += scores[static_cast<size_t>(p - first)] / sum * kept(values[index(p, kv, d)]);
          }
          ASSERT_NEAR(got[row * width() + head * dim + d], value, bound) << "row " << row << ", head " << head;
        }
      }
    }
  }

 private:
  [[nodiscard]] size_t index(int32_t p, size_t kv_head, size_t d) const {
    return (static_cast<size_t>(p) * heads_.n_kv_heads + kv_head) * heads_.head_dim + d;
  }
  [[nodiscard]] float kept(float x) const { return case_.half ? core::f16_to_float(core::float_to_f16(x)) : x; }

  // Stores the keys and values of a position, or NaN if it is after the sequence's end. Padding of a head is zero.
  void store(size_t s, int32_t position) {
    const auto block = static_cast<size_t>(blocks_[static_cast<size_t>(starts_[s] + position / 32)]);
    const auto p = static_cast<size_t>(position % 32);
    const auto put = [&](size_t offset, size_t at, float x) {
      const uint16_t bits = core::float_to_f16(x);
      std::memcpy(&bytes_[offset + at * cache_.number_bytes()],
                  cache_.half ? static_cast<const void*>(&bits) : static_cast<const void*>(&x), cache_.number_bytes());
    };
    for (size_t head = 0; head < heads_.n_kv_heads; ++head) {
      for (size_t d = 0; d < cache_.padded(); ++d) {
        const bool there = position < case_.lengths[s];
        const float nothing = d < heads_.head_dim ? std::nanf("") : 0.0F;
        const bool number = there && d < heads_.head_dim;
        put(cache_.key_offset(block, 1, head), cache_.key_index(p, d),
            number ? keys_[s][index(position, head, d)] : nothing);
        put(cache_.value_offset(block, 1, head), cache_.value_index(p, d),
            number ? values_[s][index(position, head, d)] : nothing);
      }
    }
  }

  std::vector<AttentionItem> items_of(bool in_groups) {
    const auto queries = static_cast<int32_t>(case_.queries);
    const int32_t fit = std::max(1, 16 / queries);
    const int32_t each = case_.rows_of_item == 0 ? fit : std::min(fit, case_.rows_of_item);
    std::vector<AttentionItem> items;
    int32_t row = 0;
    for (const int32_t n : case_.n_rows) {
      for (int32_t i = 0; i < n; i += each) {
        for (int32_t q = 0; q < queries; q += 16) {
          items.push_back({row + i, std::min(each, n - i), q, std::min(16, queries - q)});
          max_slots_ = std::max(max_slots_, static_cast<uint32_t>(items.back().n_rows * items.back().n_queries));
        }
      }
      while (in_groups && items.size() % kGroupItems != 0) items.push_back({row, 0, 0, std::min(16, queries)});
      row += n;
    }
    return items;
  }

  Case case_;
  Heads heads_;
  CacheView cache_;
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> starts_;  ///< index in blocks_ of each sequence's first block
  std::vector<std::vector<float>> keys_;
  std::vector<std::vector<float>> values_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> tables_;
  std::vector<size_t> sequence_;
  std::vector<float> query_;
  std::vector<float> sinks_;  ///< (n_heads)
  uint32_t max_slots_ = 0;
};

void expect_both_ways(const Case& c) {
  Setting setting(c);
  const auto parts = setting.run(true);
  setting.expect_near(parts);
  EXPECT_TRUE(same_bits(setting.run(false), parts));
}

class GpuAttention : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Cache, GpuAttention, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "F16" : "F32"; });

TEST_P(GpuAttention, IsTheTextbooksAtEveryLength) {
  for (const int32_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    SCOPED_TRACE(length);
    Case c{.half = GetParam(), .lengths = {length}, .n_rows = {std::min(length, 3)}};
    expect_both_ways(c);
    c.n_kv_heads = 1;
    c.queries = 5;
    c.head_dim = 72;
    c.latent_rank = 66;
    expect_both_ways(c);
  }
}

TEST_P(GpuAttention, IsTheTextbooksAtEveryHeadWidth) {
  for (const uint32_t head_dim : {2U, 6U, 31U, 32U, 33U, 64U, 80U, 127U, 128U, 256U}) {
    SCOPED_TRACE(head_dim);
    expect_both_ways({.head_dim = head_dim, .half = GetParam(), .lengths = {70}, .n_rows = {2}});
  }
}

TEST_P(GpuAttention, IsTheTextbooksForEveryNumberOfQueries) {
  for (const uint32_t queries : {1U, 3U, 4U, 7U, 16U, 17U, 40U}) {
    SCOPED_TRACE(queries);
    expect_both_ways({.n_kv_heads = 1, .queries = queries, .half = GetParam(), .lengths = {66}, .n_rows = {5}});
  }
}

TEST_P(GpuAttention, IsTheTextbooksInEveryWindow) {
  for (const int32_t window : {1, 2, 31, 33, 63, 64, 65, 100, 200}) {
    SCOPED_TRACE(window);
    expect_both_ways({.half = GetParam(), .lengths = {170}, .n_rows = {20}, .window = window});
  }
}

TEST_P(GpuAttention, IsTheTextbooksWithCappedScores) {
  for (const auto& [cap, scale] : {std::pair{1.0F, 3.0}, {5.0F, 10.0}, {50.0F, 10.0}}) {
    SCOPED_TRACE(cap);
    expect_both_ways({.half = GetParam(),
                      .lengths = {170, 40},
                      .n_rows = {20, 3},
                      .window = 100,
                      .scale_of_queries = scale,
                      .cap = cap});
  }
}

TEST_P(GpuAttention, IsTheTextbooksWithSinks) {
  for (const double scale : {1.0, 20.0}) {
    SCOPED_TRACE(scale);
    expect_both_ways(
        {.half = GetParam(), .lengths = {170, 1}, .n_rows = {20, 1}, .scale_of_queries = 3.0, .scale_of_sinks = scale});
  }
}

// Scores differ by hundreds, so e^x of all but the largest underflows to 0.
TEST_P(GpuAttention, DistantScoresStayFinite) {
  Case c{.half = GetParam(), .lengths = {200}, .n_rows = {4}, .scale_of_queries = 300.0};
  Setting setting(c);
  const auto parts = setting.run(true);
  for (const float x : parts) EXPECT_TRUE(std::isfinite(x) && std::abs(x) <= 1.0F);
  EXPECT_TRUE(same_bits(setting.run(false), parts));
}

// Outputs must be equal whether a work item has as many rows as fit, one row or two rows.
TEST_P(GpuAttention, RowsDoNotDependOnTheBatch) {
  for (const uint32_t rank : {0U, 34U}) {
    Case all{.n_kv_heads = rank > 0 ? 1U : 2U,
             .queries = 3,
             .head_dim = rank > 0 ? 40U : 64U,
             .half = GetParam(),
             .lengths = {100, 131, 7},
             .n_rows = {100, 70, 7},
             .latent_rank = rank};
    const auto expected = Setting(all).run(false);
    EXPECT_TRUE(same_bits(Setting(all).run(true), expected));
    all.rows_of_item = 1;
    EXPECT_TRUE(same_bits(Setting(all).run(true), expected));
    all.rows_of_item = 2;
    EXPECT_TRUE(same_bits(Setting(all).run(false), expected));
  }
}

// Tests latents of 512 + 64 elements, as in DeepSeek, of a few elements, and of sizes just above or below tile sizes.
TEST_P(GpuAttention, IsTheTextbooksOverLatentsOfEveryWidth) {
  for (const auto& [rank, latent] :
       {std::pair{1U, 3U}, {26U, 32U}, {31U, 33U}, {64U, 96U}, {65U, 66U}, {129U, 257U}, {512U, 576U}}) {
    for (const uint32_t queries : {1U, 5U, 16U, 40U}) {
      if (queries > 16 && rank > 64) continue;
      SCOPED_TRACE(fmt::format("{} of {}, {} heads", rank, latent, queries));
      expect_both_ways({.n_kv_heads = 1,
                        .queries = queries,
                        .head_dim = latent,
                        .half = GetParam(),
                        .lengths = {70},
                        .n_rows = {4},
                        .latent_rank = rank});
    }
  }
}

TEST_P(GpuAttention, IsTheTextbooksOverLatentsWithAllFeatures) {
  expect_both_ways({.n_kv_heads = 1,
                    .queries = 5,
                    .head_dim = 72,
                    .half = GetParam(),
                    .lengths = {170, 40},
                    .n_rows = {20, 3},
                    .window = 100,
                    .scale_of_queries = 3.0,
                    .cap = 5.0F,
                    .scale_of_sinks = 1.0,
                    .latent_rank = 66});
}

// With less shared memory, keys and values are read from the cache directly. The outputs must have the same bits.
TEST_P(GpuAttention, DoesNotDependOnSharedMemorySize) {
  Case c{.n_kv_heads = 1, .queries = 4, .head_dim = 128, .half = GetParam(), .lengths = {150}, .n_rows = {40}};
  Setting setting(c);
  const host::DeviceScope large({.shared_bytes = size_t{227} << 10U});
  if (devices()[0].shared_bytes < size_t{227} << 10U) GTEST_SKIP() << "a block of this GPU has less";
  EXPECT_TRUE(same_bits(setting.run(false, size_t{227} << 10U), setting.run(false)));
}

TEST_P(GpuAttention, DoesNotDependOnThreadOrder) {
  for (const auto& [in_parts, rank] : {std::pair{true, 0U}, {false, 0U}, {true, 70U}, {false, 70U}}) {
    Setting setting({.n_kv_heads = rank > 0 ? 1U : 2U,
                     .head_dim = rank > 0 ? 80U : 32U,
                     .half = GetParam(),
                     .lengths = {300, 40},
                     .n_rows = {9, 1},
                     .latent_rank = rank});
    host::require_same_in_all_orders([&] { return test::bytes_of(setting.run(in_parts)); }, 1);
  }
}

}  // namespace
}  // namespace folio::infer::gpu
