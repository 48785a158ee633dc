// Study: why can a softmax be computed block by block, and what does that save? The results are explained in README.md.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "experiments/19_flash_attention/counted_attention.h"
#include "experiments/19_flash_attention/exactness.h"
#include "experiments/19_flash_attention/online_softmax.h"
#include "experiments/common/report.h"

namespace folio::experiments {
namespace {

void three_numbers(Report& report) {
  const std::vector<double> scores{1.0, 3.0, 2.0};
  const std::vector<double> values{10.0, 20.0, 30.0};
  Partial<double> total;
  Report::Rows rows;
  for (size_t j = 0; j < scores.size(); ++j) {
    const auto block = of_block<double>(std::span(scores).subspan(j, 1), &values[j], 1);
    if (j == 0) total = block;
    if (j > 0) join(total, block);
    rows.push_back(
        {fmt::format("s = {:g}, v = {:g}", scores[j], values[j]), total.m, total.l, total.o[0], finished(total)[0]});
  }
  report.table("Three numbers", {"after", "m", "l", "o", "o / l"}, rows);
}

struct Measured {
  double bytes;  ///< moved between memory and cache
  size_t kept;   ///< elements in memory in addition to inputs and outputs
  std::vector<float> out;
};

using Attention = size_t (*)(CountedMemory&, const Head&, const Tiles&);

constexpr size_t kHeadDim = 32;
constexpr size_t kKeys = 32;  // keys in a block

Measured measure(Attention attention, size_t length, size_t cache_kib, size_t queries, uint64_t seed) {
  CountedMemory memory(cache_kib << 10U);
  const Head head = random_head(memory, length, kHeadDim, seed);
  const size_t kept = attention(memory, head, {.queries = queries, .keys = kKeys});
  const float* out = memory.uncounted(head.out);
  return {static_cast<double>(memory.bytes_moved()), kept, std::vector<float>(out, out + length * kHeadDim)};
}

// Returns the number of queries for which the queries and outputs of a tile use a quarter of the cache.
size_t tile_of(size_t cache_kib) { return (cache_kib << 10U) / (4 * 2 * kHeadDim * sizeof(float)); }

// Returns the largest difference of the two outputs divided by the sum of their error bounds. Queries, keys and values
// are in [-1, 1], so scores are in an interval of length 2 √head_dim.
double share_of_bound(const Measured& a, const Measured& b, size_t length) {
  const double range = 2.0 * std::sqrt(static_cast<double>(kHeadDim));
  const double bounds = error_bound<float>(length, length, range) + error_bound<float>(length, kKeys, range);
  double worst = 0.0;
  for (size_t i = 0; i < a.out.size(); ++i) worst = larger(worst, std::abs(static_cast<double>(a.out[i]) - b.out[i]));
  return worst / bounds;
}

void count_bytes(Report& report) {
  train::LineChart chart{.title = "Bytes between memory and cache, one causal head of width 32",
                         .x_label = "positions",
                         .y_label = "MB",
                         .series = {},
                         .log_x = true,
                         .log_y = true};
  std::vector<size_t> lengths;
  for (size_t length = 64; length <= (report.short_form() ? 2048 : 4096); length *= 2) lengths.push_back(length);
  std::map<std::pair<std::string, size_t>, std::map<size_t, double>> bytes;  // bytes[{method, cache KiB}][length]
  Report::Rows rows;
  double worst = 0.0;
  for (const size_t length : lengths) {
    rows.push_back({fmt::format("{}", length)});
    for (const size_t cache : {64, 1024}) {
      const Measured naive = measure(naive_attention, length, cache, tile_of(cache), report.seed());
      const Measured tiled = measure(tiled_attention, length, cache, tile_of(cache), report.seed());
      worst = larger(worst, share_of_bound(naive, tiled, length));
      bytes[{"all scores", cache}][length] = naive.bytes;
      bytes[{"blocks", cache}][length] = tiled.bytes;
      for (const double moved : {naive.bytes, tiled.bytes})
        rows.back().push_back(fmt::format("{:.3g} MB", moved / 1e6));
      if (cache == 64) continue;
      for (const size_t kept : {naive.kept, tiled.kept}) rows.back().push_back(static_cast<int64_t>(kept));
    }
  }
  report.table("Moved between memory and a cache of 64 KiB or 1 MiB, and values kept in memory",
               {"positions", "all scores, 64 KiB", "blocks, 64 KiB", "all scores, 1 MiB", "blocks, 1 MiB",
                "all scores keep", "blocks keep"},
               rows);
  for (const auto& [which, by_length] : bytes) {
    chart.series.push_back({fmt::format("{}, {}", which.first, which.second == 64 ? "64 KiB" : "1 MiB"), {}});
    for (const auto& [length, moved] : by_length)
      chart.series.back().points.push_back({static_cast<double>(length), moved / 1e6});
  }
  report.picture("bytes.svg", chart);

  const auto slope = [&](const std::string& kind, size_t cache, size_t from, size_t to) {
    const auto& moved = bytes.at({kind, cache});
    return std::log(moved.at(to) / moved.at(from)) / std::log(ratio(to, from));
  };
  report.check_below("the two results' distance, as a share of their bounds", worst, 1.0);
  report.check_above("slope with all scores, 64 KiB, 512 to 2048 positions", slope("all scores", 64, 512, 2048), 1.9);
  report.check_above("slope with all scores, 1 MiB, 1024 to 2048", slope("all scores", 1024, 1024, 2048), 1.9);
  report.check_below("slope in blocks, 1 MiB, 64 to 2048: K and V stay in the cache", slope("blocks", 1024, 64, 2048),
                     1.05);
  report.check_above("slope in blocks, 64 KiB, 1024 to 2048: they don't", slope("blocks", 64, 1024, 2048), 1.7);
  report.check_above("but all scores move more, 64 KiB, 2048 positions: times",
                     bytes.at({"all scores", 64}).at(2048) / bytes.at({"blocks", 64}).at(2048), 4.0);
  const double half = measure(tiled_attention, 2048, 64, tile_of(64) / 2, report.seed()).bytes;
  report.check_above("blocks, 64 KiB, 2048 positions: half as many queries in a tile move more by",
                     half / bytes.at({"blocks", 64}).at(2048), 1.7);
}

void study(Report& report) {
  three_numbers(report);
  check_any_order(report);
  check_engines_order(report);
  count_bytes(report);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "19_flash_attention", folio::experiments::study);
}
