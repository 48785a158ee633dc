// Step (g) of the lesson measures attention with an online softmax over a paged cache.
#include "experiments/33_cuda/g_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/tiles.h"
#include "infer/cuda/kernels.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace gpu = infer::gpu;

constexpr size_t kHeads = 4;
constexpr size_t kPast = 1000;  // positions; a multiple of neither the block size nor the part size
constexpr size_t kPool = 80;    // number of cache blocks in memory, of 16 positions each
constexpr size_t kParts = (kPast + kPartOfPositions - 1) / kPartOfPositions;

/// The queries, keys and values of all heads.
struct Past {
  std::vector<float> query;   // (heads, 64)
  std::vector<float> keys;    // (heads, positions, 64)
  std::vector<float> values;  // (heads, positions, 64), from 0 to 1 so that relative errors of outputs are small
  [[nodiscard]] static size_t index(size_t head, size_t position, size_t d) {
    return (head * kPast + position) * kQueryDim + d;
  }
};

std::vector<double> softmax_of(const Past& past, double scale) {
  std::vector<double> out(kHeads * kQueryDim);
  for (size_t head = 0; head < kHeads; ++head) {
    std::vector<double> weights(kPast);
    double sum = 0.0;
    for (size_t p = 0; p < kPast; ++p) {
      double score = 0.0;
      for (size_t d = 0; d < kQueryDim; ++d)
        score += double{past.query[head * kQueryDim + d]} * past.keys[Past::index(head, p, d)];
      sum += weights[p] = std::exp(scale * score);
    }
    for (size_t p = 0; p < kPast; ++p) {
      for (size_t d = 0; d < kQueryDim; ++d)
        out[head * kQueryDim + d] += weights[p] / sum * past.values[Past::index(head, p, d)];
    }
  }
  return out;
}

/// Returns a block table of n distinct blocks out of `pool`, which are not consecutive in memory. `step` and `pool`
/// must be coprime.
std::vector<int32_t> scattered(size_t n, size_t pool, size_t step) {
  std::vector<int32_t> table;
  for (size_t i = 0; i < n; ++i) table.push_back(static_cast<int32_t>((i * step + 11) % pool));
  return table;
}

/// Returns the cache (blocks, heads, keys then values, 16 positions, 64), with NaN where no position is stored.
std::vector<float> cache_of(const Past& past, const std::vector<int32_t>& table) {
  std::vector<float> cache(kPool * kHeads * 2 * kCachePositions * kQueryDim, NAN);
  for (size_t i = 0; i < kHeads * kPast * kQueryDim; ++i) {
    const size_t d = i % kQueryDim;
    const size_t p = i / kQueryDim % kPast;
    const size_t head = i / kQueryDim / kPast;
    const size_t keys = (static_cast<size_t>(table[p / kCachePositions]) * kHeads + head) * 2 * kCachePositions;
    cache[(keys + p % kCachePositions) * kQueryDim + d] = past.keys[i];
    cache[(keys + kCachePositions + p % kCachePositions) * kQueryDim + d] = past.values[i];
  }
  return cache;
}

/// Returns a cache of one layer in the engine's layout, with blocks of 32 positions. Unused positions contain NaN.
std::vector<float> engine_cache_of(const Past& past, const gpu::CacheView& view, const std::vector<int32_t>& table) {
  std::vector<float> cache(kPool / 2 * view.block_bytes() / sizeof(float), NAN);
  for (size_t i = 0; i < kHeads * kPast * kQueryDim; ++i) {
    const size_t d = i % kQueryDim;
    const size_t p = i / kQueryDim % kPast;
    const size_t head = i / kQueryDim / kPast;
    const auto block = static_cast<size_t>(table[p / gpu::CacheView::kPositions]);
    const size_t in_block = p % gpu::CacheView::kPositions;
    cache[view.key_offset(block, 0, head) / sizeof(float) + view.key_index(in_block, d)] = past.keys[i];
    cache[view.value_offset(block, 0, head) / sizeof(float) + view.value_index(in_block, d)] = past.values[i];
  }
  return cache;
}

/// The engine's attention over the same keys and values, for a single token at the end of its sequence.
struct EngineAttention {
  EngineAttention(Lesson& lesson, const Past& past, const CachedAttention& a) {
    gpu::Stream& stream = lesson.stream();
    in.heads = {.n_heads = kHeads, .n_kv_heads = kHeads, .head_dim = kQueryDim};
    in.cache = {.n_layers = 1, .n_kv_heads = kHeads, .head_dim = kQueryDim};
    const std::vector<int32_t> blocks = scattered((kPast + 31) / 32, kPool / 2, 7);
    const auto keep = [&](gpu::DeviceMemory made) -> const gpu::DeviceMemory& {
      return memory.emplace_back(std::move(made));
    };
    in.cache.data = keep(on_device(stream, engine_cache_of(past, in.cache, blocks))).as<uint8_t>();
    in.rows = {.positions = keep(on_device(stream, std::vector<int32_t>{kPast - 1})).as<int32_t>(),
               .tables = keep(on_device(stream, std::vector<int32_t>{0})).as<int32_t>(),
               .blocks = keep(on_device(stream, blocks)).as<int32_t>(),
               .n_rows = 1};
    in.window = kPast;
    const gpu::AttentionItem item{.row = 0, .n_rows = 1, .query = 0, .n_queries = 1};
    in.items = keep(on_device(stream, std::vector{item})).as<gpu::AttentionItem>();
    in.n_items = in.n_slots = 1;
    in.max_parts = kParts;
    in.scale = a.scale;
    in.query = a.query;
    in.out = a.out;
    in.partials = keep(lesson.unwritten(gpu::partial_bytes(in) / sizeof(float))).as<float>();
    in.counters = keep(on_device(stream, std::vector<uint32_t>(kHeads))).as<uint32_t>();
  }

  gpu::Attention in;
  std::vector<gpu::DeviceMemory> memory;
};

/// Draws the cache's blocks in memory order. Each block that the warp of head 0 reads is labeled with its index in the
/// sequence and the number of the warp that reads it in attention_split().
std::string paged_cache(const std::vector<gpu::host::WarpAccess>& trace, const CachedAttention& a) {
  constexpr size_t kBlockBytes = kHeads * 2 * kCachePositions * kQueryDim * sizeof(float);
  constexpr double kWide = 46;
  constexpr double kHigh = 38;
  std::vector<size_t> order;  // blocks in the order in which their keys are read
  for (const gpu::host::WarpAccess& access : trace) {
    const uint64_t at = access.address[0] - reinterpret_cast<uint64_t>(a.cache);
    if (access.store || at >= kPool * kBlockBytes) continue;
    if (std::find(order.begin(), order.end(), at / kBlockBytes) == order.end()) order.push_back(at / kBlockBytes);
  }
  std::string body;
  for (size_t block = 0; block < kPool; ++block) {
    const double x = 24 + static_cast<double>(block % 20) * kWide;
    const double y = 66 + static_cast<double>(block / 20) * kHigh;
    const auto found = static_cast<size_t>(std::find(order.begin(), order.end(), block) - order.begin());
    const size_t part = found * kCachePositions / kPartOfPositions;
    const bool used = found < order.size();
    body += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="card grid"/>)", x, y,
                        kWide - 4, kHigh - 4);
    if (!used) continue;
    body += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="5" class="{} fill"/>)", x, y, kWide - 4,
                        train::svg::colour(part % 6)) +
            train::svg::text_at(x + kWide / 2 - 2, y + 17, std::to_string(found), "middle", "strong") +
            train::svg::text_at(x + kWide / 2 - 2, y + 30, fmt::format("w{}", part), "middle");
  }
  return train::svg::document(
      48 + 20 * kWide - 4, 78 + 4 * kHigh, "Who reads what: attention over a paged cache",
      "blocks of 16 positions as they lie in memory; their number in the sequence, and the warp "
      "that reads them when positions are split",
      body);
}

}  // namespace

void step_g(Lesson& lesson) {
  constexpr float kScale = 0.125F;  // 1 / sqrt(64)
  Past past{lesson.random(kHeads * kQueryDim, 1), lesson.random(kHeads * kPast * kQueryDim, 2),
            lesson.random(kHeads * kPast * kQueryDim, 3)};
  for (float& v : past.values) v = (v + 1.0F) / 2.0F;
  gpu::Stream& stream = lesson.stream();
  const std::vector<int32_t> blocks = scattered((kPast + 15) / 16, kPool, 37);
  const auto query = on_device(stream, past.query);
  const auto cache = on_device(stream, cache_of(past, blocks));
  const auto table = on_device(stream, blocks);
  const auto scores = lesson.unwritten(kHeads * kPast);
  const auto partials = lesson.unwritten(kHeads * kParts * (kQueryDim + 2));
  const auto out = lesson.unwritten(past.query.size());
  const CachedAttention a{query.as<float>(),  cache.as<float>(),    table.as<int32_t>(), kHeads, kPast, kScale,
                          scores.as<float>(), partials.as<float>(), out.as<float>()};

  const EngineAttention engine(lesson, past, a);

  constexpr double kBytes = 2.0 * kHeads * (kPast + 1) * kQueryDim * sizeof(float);
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto run) {
    return Kernel{name, symbol, kBytes, [&, run] { run(stream, a); }, &out, {}, {.max_accesses = 10 * kPast}};
  };
  const std::vector<Kernel> kernels{kernel("three passes, a warp a head", "g_attention.cu:passes", attention_in_passes),
                                    kernel("online, a warp a head", "g_attention.cu:online", attention_online),
                                    kernel("online, split and joined", "g_attention.cu:join_parts", attention_split),
                                    {"the engine's", "attention.cu:attention_parts<HeadSizes<64, false>>", kBytes,
                                     [&] { gpu::attention(stream, engine.in); }, &out}};
  // Bounds the rounding of sums over positions and over a key's elements, and the TF32 error of a score below 2.
  constexpr double kRoundings = (kPast + kQueryDim + 32) * 0x1p-24 + 0x1p-18;
  const std::vector<Measured> all =
      lesson.table("g, attention of 4 heads over 1,000 positions", kernels, {softmax_of(past, kScale), kRoundings});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [passes, online, split, engines] = std::tie(all[0].counts, all[1].counts, all[2].counts, all[3].counts);
  report.table("g: how many warps, and how long each works",
               {"kernel", "warps of the largest launch", "positions and parts, one after another"},
               {{"three passes, a warp a head", passes.blocks, 2 * kPast},
                {"online, a warp a head", online.blocks, kPast},
                {"online, split and joined", split.blocks - kHeads, kPartOfPositions + kParts},
                {"the engine's", engines.blocks * engines.block_threads / 32, nullptr}});
  // For each position, attention_online loads the table entry once, and no score. attention_in_passes loads the entry
  // twice, for the key and for the value. It also loads the score twice: for the maximum, with one request per 32
  // scores, and for the weighted sum, with a request per score.
  report.check_equal("g: loads that an online softmax saves", passes.load_requests - online.load_requests,
                     kHeads * (2 * kPast + (kPast + 31) / 32));
  report.check_equal("g: stores that an online softmax saves", passes.store_requests - online.store_requests,
                     kHeads * kPast);
  report.check_equal("g: warps of the split kernel, a head", split.blocks / kHeads - 1, kParts);
  report.check_below("g: distinct sectors of the split kernels, as a multiple of one warp's",
                     ratio(split.distinct_sectors, online.distinct_sectors), 1.03);
  report.check_below("g: the engine's loads, as a share of the split kernels'",
                     ratio(engines.load_requests, split.load_requests), 0.5);
  report.picture("g_attention.svg", paged_cache(all[1].trace, a));
}

}  // namespace folio::experiments
