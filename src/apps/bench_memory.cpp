#include "apps/bench_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/error.h"
#include "core/seconds_since.h"
#include "core/thread_pool.h"
#include "infer/cpu/huge_pages.h"
#include "infer/cpu/prefetch.h"

namespace folio::apps {
namespace {

constexpr size_t kBytes = size_t{512} << 20U;
constexpr size_t kLine = 64;

struct Pattern {
  infer::Prefetch level = infer::Prefetch::None;
  size_t distance = 0;   ///< bytes from the address being read to the address being prefetched
  size_t rows = 1;       ///< number of rows whose reads a thread interleaves, a cache line of each at a time
  size_t row_bytes = 0;  ///< bytes of a row; 0: the bytes of a range of parallel_for(), divided by `rows`
};

inline void read_line(const uint64_t* p, uint64_t (&sums)[8]) {
  for (size_t i = 0; i < 8; ++i) sums[i] ^= p[i];
}

// Reads [begin, end) in groups of `pattern.rows` rows. In a group, reads cache line i of every row, then line i + 1 of
// every row. Skips a partial last group. Returns a value that depends on all bytes read.
template <infer::Prefetch level>
uint64_t read_rows(const uint8_t* begin, const uint8_t* end, const Pattern& pattern) {
  uint64_t sums[8] = {};
  const size_t stride = pattern.row_bytes > 0 ? pattern.row_bytes : static_cast<size_t>(end - begin) / pattern.rows;
  for (const uint8_t* group = begin; group + pattern.rows * stride <= end; group += pattern.rows * stride) {
    for (size_t i = 0; i < stride; i += kLine) {
      for (size_t r = 0; r < pattern.rows; ++r) {
        const uint8_t* p = group + r * stride + i;
        infer::kernels::prefetch_line<level>(p + pattern.distance);
        read_line(reinterpret_cast<const uint64_t*>(p), sums);
      }
    }
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

// Returns kBytes of filled memory, on small or large pages.
infer::HugePages filled_memory(bool large) {
  infer::HugePages memory = infer::allocate_huge_pages(kBytes);
  if (!large) ::madvise(memory.get(), kBytes, MADV_NOHUGEPAGE);
  std::fill_n(memory.get(), kBytes, uint8_t{1});
  return memory;
}

// Returns the best speed of three passes, in bytes/s.
double speed(const infer::HugePages& memory, core::ThreadPool& pool, const Pattern& pattern) {
  // If ranges are divided into equal rows, reads 128 KiB less than kBytes. With all of kBytes, the distance
  // between rows would be a power of two, and all rows would be in the same memory bank.
  const bool parts = pattern.row_bytes == 0;
  const size_t group = pattern.rows * (parts ? 4096 : pattern.row_bytes);
  const size_t bytes = (parts ? kBytes - (size_t{128} << 10U) : kBytes) / group * group;
  std::atomic<uint64_t> sum{0};
  double best = 0.0;
  for (int pass = 0; pass < 3; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(bytes, group, [&](size_t begin, size_t end) {
      sum += infer::kernels::with_level(pattern.level, [&](auto level) {
        return read_rows<level>(memory.get() + begin, memory.get() + end, pattern);
      });
    });
    best = std::max(best, static_cast<double>(bytes) / core::seconds_since(start));
  }
  core::require(sum < ~uint64_t{0}, "the sum is used, so that it is computed");
  return best;
}

}  // namespace

double read_bandwidth(size_t n_threads) {
  core::ThreadPool pool(n_threads, core::ThreadPool::Sharing::Always);
  const infer::HugePages memory = filled_memory(true);
  double best = 0.0;
  for (const infer::Prefetch level : {infer::Prefetch::None, infer::Prefetch::L1, infer::Prefetch::L2}) {
    best = std::max(best, speed(memory, pool, {.level = level, .distance = 4096, .row_bytes = 4096}));
  }
  return best;
}

void print_memory_table(size_t n_threads) {
  core::ThreadPool one(1);
  core::ThreadPool all(n_threads, core::ThreadPool::Sharing::Always);
  const std::array pages{filled_memory(false), filled_memory(true)};
  fmt::print("Read bandwidth in GB/s over {} MiB, best of three passes\n\n{:44}{:>12}{:>14}{:>14}{:>14}\n",
             kBytes >> 20U, "", "small pages", fmt::format("{} threads", all.size()), "large pages",
             fmt::format("{} threads", all.size()));
  const auto row = [&](const std::string& name, const Pattern& pattern) {
    fmt::print("{:44}", name);
    for (const infer::HugePages& p : pages) {
      for (core::ThreadPool* pool : {&one, &all}) {
        fmt::print("{:>{}.1f}", speed(p, *pool, pattern) / 1e9, &p == &pages[0] && pool == &one ? 12 : 14);
      }
    }
    fmt::print("\n");
  };
  constexpr std::array kLevels{std::pair{infer::Prefetch::L1, "L1"}, std::pair{infer::Prefetch::L2, "L2"},
                               std::pair{infer::Prefetch::L3, "L3"}, std::pair{infer::Prefetch::Once, "once"}};
  row("row after row", {.row_bytes = 4096});
  for (const auto& [level, name] : kLevels) {
    for (const size_t distance : {512U, 1024U, 2048U, 4096U, 8192U}) {
      row(fmt::format("row after row, {} ahead into {}", distance, name),
          {.level = level, .distance = distance, .row_bytes = 4096});
    }
  }
  row("two halves side by side", {.rows = 2});
  row(fmt::format("two halves side by side, {} ahead into L2", infer::kernels::kBytesAhead),
      {.level = infer::Prefetch::L2, .distance = infer::kernels::kBytesAhead, .rows = 2});
  for (const size_t rows : {4U, 16U}) {
    for (const size_t row_bytes : {1152U, 4096U}) {
      const std::string what = fmt::format("{} rows of {} side by side", rows, row_bytes);
      row(what, {.rows = rows, .row_bytes = row_bytes});
      for (const auto& [level, name] : kLevels) {
        row(fmt::format("{}, next ones into {}", what, name),
            {.level = level, .distance = rows * row_bytes, .rows = rows, .row_bytes = row_bytes});
      }
    }
  }
}

}  // namespace folio::apps
