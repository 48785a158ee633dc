// Tests the attention kernels: each instruction set's results equal the reference's bit for bit for every number of
// positions and rows, head width, and type of keys and values. Buffers begin 0 to 8 elements after a 64-byte boundary,
// or end at an unreadable page, so that out-of-bounds accesses are detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "core/float16.h"
#include "infer/reference/kernels.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/sanitized.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::Buffer;
using test::Guarded;
using test::kNaN;
using test::random_floats;

class IsaAttention : public ::testing::TestWithParam<core::Isa> {
 protected:
  const Kernels& fast_ = kernels_for(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Isa, IsaAttention, ::testing::ValuesIn(kernels::isas_with_kernels()),
                         ::testing::PrintToStringParamName());

template <typename T>
void run(const Kernels& kernels, const AttentionInput<T>& in, float* out) {
  kernels.attention(in, out);
}
void run(const Kernels& kernels, const AttentionInput<BF16Pair>& in, float* out) { kernels.attention_bf16(in, out); }

// Writes x, the key or value of position j, to `head` in the cache's type and layout, and as floats to `wide`:
// element d to wide[index(d)].
template <typename Index>
void store(std::span<const float> x, size_t /*j*/, Index index, float* head, float* wide) {
  for (size_t d = 0; d < x.size(); ++d) head[index(d)] = wide[index(d)] = x[d];
}
template <typename Index>
void store(std::span<const float> x, size_t /*j*/, Index index, F16* head, float* wide) {
  for (size_t d = 0; d < x.size(); ++d) {
    head[index(d)].bits = core::float_to_f16(x[d]);
    wide[index(d)] = core::f16_to_float(head[index(d)].bits);
  }
}
template <typename Index>
void store(std::span<const float> x, size_t j, Index index, Q8* head, float* wide) {
  std::vector<Q8> quants(x.size());
  std::vector<F16> scales(q8_groups(x.size()));
  reference_kernels().to_q8(x.data(), x.size(), quants.data(), scales.data());
  for (size_t g = 0; g < scales.size(); ++g) std::memcpy(head + q8_scale(x.size(), g, j), &scales[g], sizeof(F16));
  for (size_t d = 0; d < x.size(); ++d) {
    head[index(d)] = quants[d];
    wide[index(d)] = core::f16_to_float(scales[d / kQ8Group].bits) * static_cast<float>(quants[d].quant);
  }
}

template <typename Index>
void store(std::span<const float> x, size_t j, Index index, BF16Pair* head, float* wide) {
  const bool is_key = index(1) - index(0) == kBlockPositions;
  for (size_t d = 0; d < x.size(); ++d) {
    const BF16 rounded{core::float_to_bf16(x[d])};
    BF16Pair& pair = is_key ? head[d / 2 * kBlockPositions + j] : head[j / 2 * x.size() + d];
    pair.of[is_key ? d % 2 : j % 2] = rounded;
    wide[index(d)] = core::bf16_to_float(rounded.bits);
  }
}

struct AttentionCase {
  size_t n_positions;
  size_t n_rows;
  size_t n_queries;
  size_t head_dim;
  size_t place;
  double scale_of_queries;
  size_t window = 1000;  ///< sliding window: number of most recent positions that a row attends to
  float cap = 0.0F;
  bool sinks = false;
  size_t latent_rank = 0;  ///< latent attention: leading elements of each value that are output; 0: not latent
  [[nodiscard]] size_t first_seen() const { return n_positions - std::min(n_positions, window); }
};

// Returns how many rows a kernel call may have, at most `most`. The rows' positions, from n_positions - 1 on, must all
// be in one KV block.
size_t rows_to_the_blocks_end(size_t n_positions, size_t most) {
  return std::min(most, kBlockPositions - (n_positions - 1) % kBlockPositions);
}

// KV blocks with elements of type T, and the same values as floats, for the reference kernel.
template <typename T>
struct Blocks {
  std::vector<std::unique_ptr<Guarded<T>>> buffers;
  std::vector<const T*> starts;
  std::vector<std::vector<float>> wide;
  std::vector<const float*> wide_starts;
};

// Return the offset of the keys or values of head 1 of layer 1 in a KV block of two layers and two heads, in elements.
template <typename T>
size_t key_offset(size_t head_dim) {
  return 5 * head_size<T>(head_dim);
}
template <typename T>
size_t value_offset(size_t head_dim) {
  return 7 * head_size<T>(head_dim);
}

// Returns blocks of random keys and values. At positions that no row attends to, keys and values are NaN, as
// uninitialized memory may be, except that BF16Pair values are 0.
template <typename T>
Blocks<T> make_blocks(const AttentionCase& c) {
  const size_t n_written = c.n_positions + c.n_rows - 1;
  Blocks<T> made;
  for (size_t first = 0; first < n_written; first += kBlockPositions) {
    std::vector<float> wide(8 * head_size<float>(c.head_dim), kNaN);
    std::vector<T> block(8 * head_size<T>(c.head_dim));
    std::memset(static_cast<void*>(block.data()), 0xFF, block.size() * sizeof(T));
    if constexpr (std::is_same_v<T, BF16Pair>) {  // unlike keys, unused values must be finite
      std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(value_offset<T>(c.head_dim)), head_size<T>(c.head_dim),
                  T{});
    }
    const auto keys = random_floats(c.head_dim * kBlockPositions, first * 2 + c.head_dim);
    const auto values = random_floats(c.head_dim * kBlockPositions, first * 2 + c.head_dim + 1);
    for (size_t j = 0; j < std::min(kBlockPositions, n_written - first); ++j) {
      if (first + j < c.first_seen()) continue;
      const auto of_position = [&](const std::vector<float>& x) {
        return std::span(x).subspan(j * c.head_dim, c.head_dim);
      };
      if (c.latent_rank == 0) {
        store(
            of_position(keys), j, [&](size_t d) { return d * kBlockPositions + j; },
            block.data() + key_offset<T>(c.head_dim), wide.data() + key_offset<float>(c.head_dim));
      }
      store(
          of_position(values), j, [&](size_t d) { return j * c.head_dim + d; },
          block.data() + value_offset<T>(c.head_dim), wide.data() + value_offset<float>(c.head_dim));
    }
    made.buffers.push_back(
        std::make_unique<Guarded<T>>(std::span<const T>(block), (c.place * 3 + made.buffers.size()) % 10));
    made.starts.push_back(made.buffers.back()->data());
    made.wide.push_back(std::move(wide));
    made.wide_starts.push_back(made.wide.back().data());
  }
  return made;
}

// Returns an upper bound on the error from rounding queries and weights to BF16. Keys and values are in [-1, 1], so
// rounding a query changes a score by at most s = 2^-9 Σ |q| * scale, and so a weight by a factor of at most e^2s.
// Rounding the weight adds a relative error of at most 2^-9.
double rounding_bound(const AttentionCase& c, std::span<const float> query) {
  double largest = 0.0;
  for (size_t r = 0; r < c.n_rows; ++r) {
    for (size_t q = 0; q < c.n_queries; ++q) {
      double sum = 0.0;
      for (const float x : query.subspan(r * (c.n_queries * c.head_dim + c.place) + q * c.head_dim, c.head_dim)) {
        sum += std::abs(x);
      }
      largest = std::max(largest, sum);
    }
  }
  const double s = 0x1p-9 * largest / std::sqrt(static_cast<double>(c.head_dim));
  constexpr double kFloats = 1e-4;  // rounding errors of float sums in both kernels
  return std::expm1(2.0 * s) * (1.0 + 0x1p-9) + 0x1p-9 + kFloats;
}

// Compares the kernel for KV caches of type T with a reference kernel: the one for BF16 pairs if T is BF16Pair,
// otherwise the one for floats. Results for BF16 pairs must also be close to those for floats.
template <typename T>
void check_type(const Kernels& fast, const AttentionCase& c) {
  const auto blocks = make_blocks<T>(c);
  const size_t row_stride = c.n_queries * c.head_dim + c.place;
  const size_t size = (c.n_rows - 1) * row_stride + c.n_queries * c.head_dim;
  Buffer query(random_floats(size, c.n_queries + c.head_dim, c.scale_of_queries), c.place);
  // Every output row must be written completely, and the gaps between rows must not change.
  std::vector<float> before(size, 7.0F);
  for (size_t r = 0; r < c.n_rows; ++r) {
    for (size_t q = 0; q < c.n_queries; ++q) {
      const size_t at = r * row_stride + q * c.head_dim;
      std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(at), c.latent_rank > 0 ? c.latent_rank : c.head_dim,
                  kNaN);
    }
  }
  Buffer expected(before, 0);
  Buffer got(before, (c.place * 7 + 2) % 10);
  const std::vector<float> sinks = random_floats(c.n_queries, c.place, 4.0);
  const auto input = [&]<typename U>(const std::vector<const U*>& starts) {
    return AttentionInput<U>{.query = query.data(),
                             .blocks = starts.data(),
                             .key_offset = key_offset<U>(c.head_dim),
                             .value_offset = value_offset<U>(c.head_dim),
                             .n_positions = c.n_positions,
                             .window = c.window,
                             .n_rows = c.n_rows,
                             .row_stride = row_stride,
                             .n_queries = c.n_queries,
                             .head_dim = c.head_dim,
                             .latent_rank = c.latent_rank,
                             .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim)),
                             .cap = c.cap,
                             .sinks = c.sinks ? sinks.data() : nullptr};
  };
  run(reference_kernels(), input(blocks.wide_starts), expected.data());
  if constexpr (std::is_same_v<T, BF16Pair>) {
    const std::vector<float> exact(expected.values().begin(), expected.values().end());
    run(reference_kernels(), input(blocks.starts), expected.data());
    const double bound = rounding_bound(c, query.values());
    for (size_t i = 0; i < size; ++i) ASSERT_NEAR(expected.values()[i], exact[i], bound) << i;
  }
  run(fast, input(blocks.starts), got.data());
  const auto label =
      fmt::format("{} positions in {} bytes, {} rows, {} queries of {} at {}, scale {}, window {}, cap {}{}, latent {}",
                  c.n_positions, sizeof(T), c.n_rows, c.n_queries, c.head_dim, c.place, c.scale_of_queries, c.window,
                  c.cap, c.sinks ? ", sinks" : "", c.latent_rank);
  ASSERT_TRUE(std::all_of(expected.values().begin(), expected.values().end(), [](float x) { return std::isfinite(x); }))
      << label;
  for (size_t i = 0; i < size; ++i) {
    const size_t in_row = i % row_stride;
    const bool written =
        in_row < c.n_queries * c.head_dim && (c.latent_rank == 0 || in_row % c.head_dim < c.latent_rank);
    ASSERT_TRUE(written || expected.values()[i] == 7.0F) << label;
  }
  ASSERT_TRUE(test::wrote(got, expected.values())) << label;
}

void check_attention(const Kernels& fast, const AttentionCase& c) {
  check_type<float>(fast, c);
  check_type<F16>(fast, c);
  check_type<Q8>(fast, c);
  if (fast.attention_bf16 != nullptr && c.head_dim % 2 == 0) check_type<BF16Pair>(fast, c);
}

TEST_P(IsaAttention, GivesTheReferencesBitsAtEveryLength) {
  size_t place = 0;
  for (const size_t head_dim : {2, 6, 10, 16, 48}) {
    for (size_t n_positions = 1; n_positions <= 100; ++n_positions) {
      for (size_t n_queries = 1; n_queries <= 5; ++n_queries) {
        if (test::kSanitized && n_queries != 1 + n_positions % 5) continue;
        const size_t n_rows = rows_to_the_blocks_end(n_positions, 1 + place % 3 * 4);
        check_attention(fast_, {n_positions, n_rows, n_queries, head_dim, place++ % 10, 3.0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(IsaAttention, GivesTheReferencesBitsAtEveryHeadWidth) {
  std::vector<size_t> head_dims;
  for (size_t d = 2; d <= 2 * kLanes + 2; d += 2) head_dims.push_back(d);
  for (const size_t d : {46, 48, 62, 64, 66, 80, 94, 96, 112, 128, 130, 256, 510, 512}) head_dims.push_back(d);
  size_t place = 0;
  for (const size_t head_dim : head_dims) {
    for (const size_t n_positions : {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 97}) {
      const size_t n_rows = rows_to_the_blocks_end(n_positions, 1 + place % 7);
      check_attention(fast_, {n_positions, n_rows, 1 + place % 5, head_dim, place % 10, 3.0});
      ++place;
      if (HasFatalFailure()) return;
    }
  }
}

// For each length and number of rows, tests one number of queries. `make long` tests all numbers of queries.
TEST_P(IsaAttention, GivesTheReferencesBitsForEveryNumberOfRows) {
  const bool all = std::getenv("FOLIO_LONG") != nullptr;
  constexpr size_t kQueries[] = {1, 2, 3, 4, 7, 8, 9, 14};
  size_t place = 0;
  size_t first = 0;
  for (const size_t n_positions : {1, 9, 33, 49, 65}) {
    for (size_t n_rows = 1; n_rows <= rows_to_the_blocks_end(n_positions, 32); ++n_rows) {
      for (size_t i = 0; i < (all ? std::size(kQueries) : 1); ++i) {
        const size_t n_queries = kQueries[(first + n_rows + i) % std::size(kQueries)];
        check_attention(fast_, {n_positions, n_rows, n_queries, 64, place++ % 10, 3.0});
        if (HasFatalFailure()) return;
      }
    }
    ++first;
  }
}

TEST_P(IsaAttention, GivesTheReferencesBitsInEveryWindow) {
  size_t place = 0;
  for (size_t window = 1; window <= 70; ++window) {
    for (const size_t n_positions : {1, 3, 31, 32, 33, 40, 64, 65, 90, 100}) {
      const size_t first = n_positions - std::min(n_positions, window);
      const size_t before_next =
          n_positions < window ? window - n_positions + kBlockPositions : kBlockPositions - first % kBlockPositions;
      const size_t n_rows = std::min(rows_to_the_blocks_end(n_positions, 1 + place % 9), before_next);
      for (const size_t head_dim : {18, 64, 80}) {
        if (test::kSanitized && head_dim > 18 && window % 8 != 0) continue;
        check_attention(fast_, {n_positions, n_rows, 1 + place % 4, head_dim, place % 10, 3.0, window});
        ++place;
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Tests scores below and far above the cap, and sinks above and below all scores.
TEST_P(IsaAttention, GivesTheReferencesBitsWithCapsAndSinks) {
  size_t place = 0;
  for (const size_t n_positions : {1, 2, 17, 32, 33, 64, 65, 97}) {
    for (const double scale : {0.3, 30.0}) {
      for (const float cap : {0.0F, 5.0F, 50.0F}) {
        for (const size_t window : {20, 1000}) {
          const size_t n_rows = window < n_positions ? 1 : rows_to_the_blocks_end(n_positions, 1 + place % 5);
          check_attention(fast_,
                          {n_positions, n_rows, 1 + place % 6, 18, place % 10, scale, window, cap, place % 3 > 0});
          ++place;
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// In latent attention, blocks store only values. Keys are NaN here, to detect a kernel that reads them.
TEST_P(IsaAttention, GivesTheReferencesBitsOverLatents) {
  size_t place = 0;
  struct {
    size_t latent, head;
  } constexpr kWidths[] = {{1, 3}, {16, 18}, {32, 48}, {40, 64}, {65, 97}, {160, 192}, {512, 576}, {1000, 1024}};
  for (const auto& width : kWidths) {
    for (const size_t n_positions : {1, 2, 16, 31, 32, 33, 49, 64, 97}) {
      for (const size_t window : {20, 1000}) {
        const size_t n_rows = window < n_positions ? 1 : rows_to_the_blocks_end(n_positions, 1 + place % 7);
        const size_t n_queries = width.head > 200 ? 1 + place % 3 : 1 + place % 17;
        check_attention(fast_, {n_positions, n_rows, n_queries, width.head, place % 10, 3.0, window,
                                place % 4 == 0 ? 5.0F : 0.0F, place % 3 == 0, width.latent});
        ++place;
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Tests scores s that differ by hundreds: with their running maximum m, e^(s - m) underflows, and m often increases.
TEST_P(IsaAttention, GivesTheReferencesBitsForFarScores) {
  for (size_t n_positions = 1; n_positions <= 100; n_positions += 3) {
    for (const double scale : {0.0, 30.0, 1000.0}) {
      check_attention(fast_, {n_positions, rows_to_the_blocks_end(n_positions, 4), 4, 18, n_positions % 10, scale});
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
