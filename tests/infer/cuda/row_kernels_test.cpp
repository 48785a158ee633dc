// Tests the kernels that process single rows: norm, SwiGLU, adapters, RoPE with the KV cache, embeddings. Plain, fast
// and fused forms equal the reference, or are within a derived bound of it, at every size and in all orders of threads.
#include <cmath>

#include "core/float16.h"
#include "infer/reference/reference.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/operands.h"

namespace folio::infer::gpu {
namespace {

using infer::test::random_floats;
using infer::test::same_bits;
using test::on_device;
using test::on_host;
using test::Packing;
using test::unwritten;

constexpr std::array kKinds{Kind::F32, Kind::F16, Kind::BF16, Kind::Groups};

// Bounds the absolute error of a norm's output, x / sqrt(mean + eps) * weight. The sum of squares has a relative error
// of `dim` roundings, which the square root halves. Three more operations follow.
double norm_bound(size_t dim, double value) {
  return std::abs(value) * (static_cast<double>(dim) / 2 + 8) * 0x1p-24 + 1e-37;
}

std::vector<double> exact_norm(std::span<const float> x, std::span<const float> weight, double eps, size_t dim) {
  std::vector<double> out;
  for (size_t n = 0; n < x.size() / dim; ++n) {
    double sum = 0.0;
    for (size_t i = 0; i < dim; ++i) sum += std::pow(static_cast<double>(x[n * dim + i]), 2);
    for (size_t i = 0; i < dim; ++i) {
      out.push_back(x[n * dim + i] / std::sqrt(sum / static_cast<double>(dim) + eps) * weight[i]);
    }
  }
  return out;
}

TEST(RmsNorm, IsWithinRoundingErrors) {
  Stream stream(0);
  std::vector<size_t> sizes = test::kSizes;
  sizes.push_back(257);
  for (const size_t dim : sizes) {
    for (const size_t n : {1U, 9U, 33U}) {
      const auto x = random_floats(n * dim, dim);
      const auto w = random_floats(dim, 2);
      const auto expected = exact_norm(x, w, 1e-5F, dim);
      const DeviceMemory device_x = on_device(stream, x);
      const DeviceMemory device_w = on_device(stream, w);
      const DeviceMemory out = unwritten(stream, n * dim * sizeof(float));
      rms_norm(stream, device_x.as<float>(), device_w.as<float>(), 1e-5F, n, dim, out.as<float>());
      const auto got = on_host<float>(stream, out);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], norm_bound(dim, expected[i])) << dim;
      rms_norm(stream, device_x.as<float>(), device_w.as<float>(), 1e-5F, n, dim, device_x.as<float>());  // in place
      EXPECT_TRUE(same_bits(on_host<float>(stream, device_x), got)) << dim;
    }
  }
}

// Normalizes the first `dim` elements of wider rows. The other elements must not change.
TEST(RmsNorm, StridedVectorsMatchAdjacentOnes) {
  Stream stream(0);
  for (const size_t dim : {31U, 300U}) {
    auto expected = random_floats(4 * (dim + 5), 1);
    const DeviceMemory wide = on_device(stream, expected);
    const DeviceMemory w = on_device(stream, random_floats(dim, 2));
    for (size_t row = 0; row < 4; ++row) {
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(row * (dim + 5));
      const DeviceMemory x = on_device(stream, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(dim)));
      rms_norm(stream, x.as<float>(), w.as<float>(), 1e-5F, 1, dim, x.as<float>());
      std::ranges::copy(on_host<float>(stream, x), first);
    }
    rms_norm(stream, wide.as<float>(), w.as<float>(), 1e-5F, 4, dim, wide.as<float>(), dim + 5);
    EXPECT_TRUE(same_bits(on_host<float>(stream, wide), expected)) << dim;
  }
}

TEST(RmsNorm, FusedMatchesAddNormAndPack) {
  Stream stream(0);
  for (const Kind kind : kKinds) {
    for (const size_t dim : test::kSizes) {
      if (kind == Kind::Groups && dim % 32 != 0) continue;
      const size_t n = 9;
      const auto x = random_floats(n * dim, dim);
      const auto delta = random_floats(n * dim, 3);
      const auto w = random_floats(dim, 2);
      const DeviceMemory device_delta = on_device(stream, delta);
      const DeviceMemory device_w = on_device(stream, w);
      for (const bool with_delta : {false, true}) {
        std::vector<float> sum = x;
        const float scale = kind == Kind::F32 ? 0.3F : 1.0F;
        for (size_t i = 0; i < sum.size() && with_delta; ++i) sum[i] = x[i] + scale * delta[i];
        const auto expected = exact_norm(sum, w, 1e-5F, dim);
        const DeviceMemory residual = on_device(stream, x);
        const DeviceMemory out = unwritten(stream, n * dim * sizeof(float));
        const Packing packed(stream, n, dim, kind);
        add_norm_pack(stream, residual.as<float>(), {with_delta ? device_delta.as<float>() : nullptr, scale},
                      device_w.as<float>(), 1e-5F, out.as<float>(), packed.view);
        EXPECT_TRUE(same_bits(on_host<float>(stream, residual), sum));
        const auto got = on_host<float>(stream, out);
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], norm_bound(dim, expected[i])) << dim;
        const Packing apart(stream, n, dim, kind);
        pack_inputs(stream, out.as<float>(), apart.view);
        EXPECT_EQ(on_host<uint8_t>(stream, packed.data), on_host<uint8_t>(stream, apart.data)) << dim;
      }
    }
  }
}

TEST(Activation, MatchesTheReferenceExactly) {
  Stream stream(0);
  for (const size_t n : test::kSizes) {
    const auto gate = random_floats(n, n, 20.0);
    const auto up = random_floats(n, 2, 3.0);
    const auto expect = [&](Activation activation, auto reference) {
      std::vector<float> expected(n);
      reference(gate.data(), up.data(), n, expected.data());
      const DeviceMemory device_gate = on_device(stream, gate);
      const DeviceMemory device_up = on_device(stream, up);
      activate(stream, activation, device_gate.as<float>(), device_up.as<float>(), n);
      EXPECT_TRUE(same_bits(on_host<float>(stream, device_gate), expected)) << n;
    };
    expect(Activation::Silu, kernels::reference::swiglu);
    expect(Activation::Gelu, kernels::reference::geglu);
    expect(Activation::Clamped, kernels::reference::clamped_swiglu);
  }
}

TEST(Activation, FusedMatchesSeparateKernels) {
  Stream stream(0);
  for (const Kind kind : kKinds) {
    const Activation activation = kind == Kind::F16 ? Activation::Gelu : Activation::Silu;
    for (const size_t k : test::kSizes) {
      if (kind == Kind::Groups && k % 32 != 0) continue;
      const auto gate = random_floats(9 * k, k, 5.0);
      const DeviceMemory up = on_device(stream, random_floats(9 * k, 2));
      const DeviceMemory one = on_device(stream, gate);
      const DeviceMemory other = on_device(stream, gate);
      const Packing packed(stream, 9, k, kind);
      const Packing apart(stream, 9, k, kind);
      activate_pack(stream, activation, one.as<float>(), up.as<float>(), packed.view);
      activate(stream, activation, other.as<float>(), up.as<float>(), 9 * k);
      pack_inputs(stream, other.as<float>(), apart.view);
      EXPECT_TRUE(same_bits(on_host<float>(stream, one), on_host<float>(stream, other)));
      EXPECT_EQ(on_host<uint8_t>(stream, packed.data), on_host<uint8_t>(stream, apart.data)) << k;
    }
  }
}

// Each row uses one of four adapters or none. A rank of 0 means that the adapter doesn't change this matrix.
TEST(Adapters, RowsUseTheirOwnAdapters) {
  Stream stream(0);
  const size_t k = 100;
  const size_t n_out = 300;
  const std::vector<uint32_t> ranks = {1, 0, 37, 256};
  const auto x = random_floats(6 * k, 1);
  const DeviceMemory device_x = on_device(stream, x);
  std::vector<std::vector<float>> a;
  std::vector<std::vector<float>> b;
  std::vector<DeviceMemory> memory;
  std::vector<AdapterPart> parts;
  for (const uint32_t rank : ranks) {
    a.push_back(random_floats(std::max<size_t>(rank, 1) * k, rank + 2, 0.1));
    b.push_back(random_floats(n_out * std::max<size_t>(rank, 1), rank + 3, 0.1));
    memory.push_back(on_device(stream, a.back()));
    memory.push_back(on_device(stream, b.back()));
    parts.push_back(
        {.a = memory[memory.size() - 2].as<float>(), .b = memory.back().as<float>(), .rank = rank, .scale = 0.7F});
  }
  const std::vector<int32_t> slots = {2, -1, 0, 1, 3, 2};
  const DeviceMemory table = on_device(stream, parts);
  const auto before = random_floats(6 * n_out, 9);
  const auto sums = [&] {
    const DeviceMemory out = on_device(stream, before);
    const DeviceMemory device_slots = on_device(stream, slots);
    add_adapted(stream, device_x.as<float>(), 6, k, device_slots.as<int32_t>(), table.as<AdapterPart>(),
                out.as<float>(), n_out);
    return on_host<float>(stream, out);
  };
  const auto got = sums();
  for (size_t row = 0; row < slots.size(); ++row) {
    const size_t rank = slots[row] < 0 ? 0 : ranks[static_cast<size_t>(slots[row])];
    for (size_t i = 0; i < n_out; ++i) {
      double sum = 0.0;
      for (size_t j = 0; j < rank; ++j) {
        double t = 0.0;
        for (size_t c = 0; c < k; ++c)
          t += static_cast<double>(a[static_cast<size_t>(slots[row])][j * k + c]) * x[row * k + c];
        sum += 0.7 * t * b[static_cast<size_t>(slots[row])][i * rank + j];
      }
      // Allows 356 roundings of a sum. Its terms total at most 0.7 * 256 * 100 * 0.01, about 180.
      EXPECT_NEAR(got[row * n_out + i], before[row * n_out + i] + sum, 356 * 0x1p-24 * 180) << row << " " << i;
    }
  }
  host::require_same_in_all_orders([&] { return test::bytes_of(sums()); });
}

TEST(RowKernels, DoNotDependOnThreadOrder) {
  Stream stream(0);
  for (const Kind kind : kKinds) {
    const size_t dim = 576;
    const auto x = random_floats(3 * dim, 1);
    const DeviceMemory delta = on_device(stream, random_floats(3 * dim, 2));
    const DeviceMemory w = on_device(stream, random_floats(dim, 3));
    host::require_same_in_all_orders([&] {
      const DeviceMemory residual = on_device(stream, x);
      const DeviceMemory out = unwritten(stream, 3 * dim * sizeof(float));
      const Packing packed(stream, 3, dim, kind);
      add_norm_pack(stream, residual.as<float>(), {.numbers = delta.as<float>()}, w.as<float>(), 1e-5F, out.as<float>(),
                    packed.view);
      activate_pack(stream, Activation::Silu, out.as<float>(), residual.as<float>(), packed.view);
      return test::bytes_of(stream, {&out, &packed.data});
    });
  }
}

TEST(Residual, GathersRowsAndAddsSums) {
  Stream stream(0);
  for (const size_t dim : test::kSizes) {
    const auto x = random_floats(5 * dim, 1);
    const auto delta = random_floats(5 * dim, 2);
    const DeviceMemory device_x = on_device(stream, x);
    const DeviceMemory device_delta = on_device(stream, delta);
    const DeviceMemory rows = on_device(stream, std::vector<int32_t>{4, 0, 2});
    const float scale = dim % 2 == 0 ? 0.3F : 1.0F;
    const DeviceMemory out = unwritten(stream, 3 * dim * sizeof(float));
    gather(stream, device_x.as<float>(), rows.as<int32_t>(), 3, dim, out.as<float>());
    std::vector<float> expected;
    for (const size_t row : {4U, 0U, 2U}) {
      for (size_t i = 0; i < dim; ++i) expected.push_back(x[row * dim + i]);
    }
    EXPECT_TRUE(same_bits(on_host<float>(stream, out), expected));
    add(stream, device_x.as<float>(), {device_delta.as<float>(), scale}, 5 * dim);
    const auto sums = on_host<float>(stream, device_x);
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], x[i] + scale * delta[i]);
  }
}

TEST(Residual, ScaledAndCappedLogitsMatchTheReference) {
  Stream stream(0);
  for (const size_t n : test::kSizes) {
    for (const auto& [scale, cap] : {std::pair{1.0F, 0.0F}, {0.3F, 0.0F}, {1.0F, 30.0F}, {0.3F, 5.0F}}) {
      auto expected = random_floats(n, n, 100.0);
      const DeviceMemory x = on_device(stream, expected);
      finish_logits(stream, x.as<float>(), n, scale, cap);
      for (float& logit : expected) logit *= scale;
      if (cap > 0.0F) kernels::reference::soft_cap(expected.data(), n, cap);
      EXPECT_TRUE(same_bits(on_host<float>(stream, x), expected)) << n << " " << scale << " " << cap;
    }
  }
}

// Expects the element at `index` of a head whose keys or values begin at `offset` to be x, rounded if the cache is F16.
void expect_stored(const std::vector<uint8_t>& bytes, const CacheView& cache, size_t offset, size_t index, float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &bytes[offset + index * cache.number_bytes()], cache.number_bytes());
  ASSERT_EQ(bits, cache.half ? core::float_to_f16(x) : std::bit_cast<uint32_t>(x)) << index;
}

TEST(Rope, RotatesLikeTheReferenceAndStores) {
  Stream stream(0);
  for (const bool half : {false, true}) {
    for (const bool halves : {false, true}) {
      for (const auto& [head_dim, rotated] :
           {std::pair{2U, 2U}, {6U, 4U}, {32U, 32U}, {48U, 48U}, {64U, 16U}, {80U, 80U}, {256U, 64U}, {256U, 256U}}) {
        const Heads heads{.n_heads = 6, .n_kv_heads = 2, .head_dim = head_dim};
        CacheView cache{.n_layers = 2, .n_kv_heads = 2, .head_dim = head_dim, .half = half};
        const DeviceMemory memory = unwritten(stream, 4 * cache.block_bytes());
        stream.fill(memory.as<void>(), 0, memory.bytes());
        cache.data = memory.as<uint8_t>();
        const std::vector<int32_t> positions{33, 34, 0, 63};
        const std::vector<int32_t> tables{0, 0, 2, 2};
        const std::vector<int32_t> blocks{3, 1, 0, 2};
        const size_t n = positions.size();
        const size_t pairs = rotated / 2;
        std::vector<float> cosines(64 * pairs);
        std::vector<float> sines(64 * pairs);
        for (size_t i = 0; i < cosines.size(); ++i) {
          cosines[i] = std::cos(static_cast<float>(i) * 0.37F);
          sines[i] = std::sin(static_cast<float>(i) * 0.37F);
        }
        auto query = random_floats(n * 6 * head_dim, 1);
        auto key = random_floats(n * 2 * head_dim, 2);
        const auto value = random_floats(n * 2 * head_dim, 3);
        const DeviceMemory q = on_device(stream, query);
        const DeviceMemory k = on_device(stream, key);
        const DeviceMemory v = on_device(stream, value);
        const DeviceMemory c = on_device(stream, cosines);
        const DeviceMemory s = on_device(stream, sines);
        const DeviceMemory p = on_device(stream, positions);
        const DeviceMemory t = on_device(stream, tables);
        const DeviceMemory b = on_device(stream, blocks);
        const RowsView rows{.positions = p.as<int32_t>(),
                            .tables = t.as<int32_t>(),
                            .blocks = b.as<int32_t>(),
                            .n_rows = static_cast<uint32_t>(n)};
        const Angles angles{c.as<float>(), s.as<float>(), rotated, halves};
        rotate_and_store(stream, rows, heads, angles, q.as<float>(), k.as<float>(), v.as<float>(), cache, 1);
        const auto stored = on_host<uint8_t>(stream, memory);
        const auto kind = halves ? core::RopePairs::Halves : core::RopePairs::Adjacent;
        for (size_t row = 0; row < n; ++row) {
          const auto position = static_cast<size_t>(positions[row]);
          std::vector<float> cos(rotated);
          std::vector<float> sin(rotated);
          for (size_t d = 0; d < rotated; ++d) {
            const size_t pair = position * pairs + (halves ? d % pairs : d / 2);
            cos[d] = cosines[pair];
            sin[d] = (halves ? d < pairs : d % 2 == 0) ? -sines[pair] : sines[pair];
          }
          const auto rotate = [&](float* head) {
            kernels::reference::rope(head, cos.data(), sin.data(), 1, rotated, kind);
          };
          for (size_t head = 0; head < 6; ++head) rotate(&query[(row * 6 + head) * head_dim]);
          for (size_t head = 0; head < 2; ++head) rotate(&key[(row * 2 + head) * head_dim]);
          const auto block = static_cast<size_t>(blocks[static_cast<size_t>(tables[row]) + position / 32]);
          for (size_t head = 0; head < 2; ++head) {
            for (size_t d = 0; d < head_dim; ++d) {
              const size_t i = (row * 2 + head) * head_dim + d;
              const size_t in_block = position % 32;
              expect_stored(stored, cache, cache.key_offset(block, 1, head), cache.key_index(in_block, d), key[i]);
              expect_stored(stored, cache, cache.value_offset(block, 1, head), cache.value_index(in_block, d),
                            value[i]);
            }
          }
        }
        EXPECT_TRUE(same_bits(on_host<float>(stream, q), query)) << head_dim;
        EXPECT_TRUE(same_bits(on_host<float>(stream, k), key)) << head_dim;
      }
    }
  }
}

// The last elements of each query head and of the latent are rotated, and the latent is stored once.
TEST(Rope, RotatesTheEndOfLatentsAndStoresThem) {
  Stream stream(0);
  constexpr size_t kHeads = 3;
  constexpr size_t kQueryDim = 11;
  constexpr size_t kRotated = 4;
  constexpr size_t kRank = 70;
  for (const bool half : {false, true}) {
    CacheView cache{.n_layers = 2, .n_kv_heads = 1, .head_dim = kRank + kRotated, .half = half, .latent_rank = kRank};
    EXPECT_EQ(cache.block_bytes(), 2 * 32 * 128 * (half ? 2 : 4)) << "one latent per position, padded to 128";
    const DeviceMemory memory = unwritten(stream, cache.block_bytes());
    cache.data = memory.as<uint8_t>();
    auto query = random_floats(kHeads * kQueryDim, 1);
    auto latent = random_floats(kRank + kRotated, 2);
    const std::vector<float> angles{0.6F, 0.8F, 0.28F, 0.96F};  // arbitrary values: two cosines, then two sines
    const DeviceMemory q = on_device(stream, query);
    const DeviceMemory k = on_device(stream, latent);
    const DeviceMemory zeros = on_device(stream, std::vector<int32_t>{0});
    const DeviceMemory c = on_device(stream, angles);
    const RowsView rows{
        .positions = zeros.as<int32_t>(), .tables = zeros.as<int32_t>(), .blocks = zeros.as<int32_t>(), .n_rows = 1};
    rotate_and_store(stream, rows, {.n_heads = kHeads, .n_kv_heads = 1, .head_dim = kQueryDim},
                     {c.as<float>(), c.as<float>() + 2, kRotated, false}, q.as<float>(), k.as<float>(), nullptr, cache,
                     1);
    const std::vector<float> cos{angles[0], angles[0], angles[1], angles[1]};
    const std::vector<float> sin{-angles[2], angles[2], -angles[3], angles[3]};
    const auto rotate = [&](float* x) {
      kernels::reference::rope(x, cos.data(), sin.data(), 1, kRotated, core::RopePairs::Adjacent);
    };
    for (size_t head = 0; head < kHeads; ++head) rotate(&query[(head + 1) * kQueryDim - kRotated]);
    rotate(&latent[kRank]);
    EXPECT_TRUE(same_bits(on_host<float>(stream, q), query));
    EXPECT_TRUE(same_bits(on_host<float>(stream, k), latent));
    const auto stored = on_host<uint8_t>(stream, memory);
    for (size_t d = 0; d < latent.size(); ++d) {
      expect_stored(stored, cache, cache.key_offset(0, 1, 0), cache.key_index(0, d), latent[d]);
    }
  }
}

TEST(CopyBlocks, CopiesOnlyWholeBlocks) {
  Stream stream(0);
  CacheView cache{.n_layers = 3, .n_kv_heads = 2, .head_dim = 20, .half = true};
  std::vector<uint8_t> bytes(5 * cache.block_bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(core::random_below(1, i, 256));
  const DeviceMemory memory = on_device(stream, bytes);
  const DeviceMemory pairs = on_device(stream, std::vector<int32_t>{0, 3, 1, 2});
  cache.data = memory.as<uint8_t>();
  copy_blocks(stream, cache, pairs.as<int32_t>(), 2);
  const auto block = [&](size_t i) { return bytes.begin() + static_cast<ptrdiff_t>(i * cache.block_bytes()); };
  std::copy(block(0), block(1), block(3));
  std::copy(block(1), block(2), block(2));
  EXPECT_EQ(on_host<uint8_t>(stream, memory), bytes);
}

}  // namespace
}  // namespace folio::infer::gpu
