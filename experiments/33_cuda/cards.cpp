#include "experiments/33_cuda/cards.h"

#include <algorithm>

namespace folio::experiments {

const std::array<Card, kCards>& cards() {
  static const std::array<Card, kCards> all{{
      {"A100", 64, 32, size_t{164} << 10U, 2.039e12, 19.5e12, 312e12},
      {"RTX 4090", 48, 24, size_t{100} << 10U, 1.008e12, 82.6e12, 165e12},
      {"H100", 64, 32, size_t{228} << 10U, 3.35e12, 67e12, 989e12},
  }};
  return all;
}

// Follows cuda_occupancy.h for compute capabilities 8.0 to 9.0. A multiprocessor has four partitions of 16,384
// registers. A warp is allocated registers of one partition, in multiples of 256. CUDA adds 1,024 bytes to the shared
// memory of a block, and rounds the sum up to a multiple of 128.
Occupancy occupancy(const Card& card, unsigned threads, unsigned registers, size_t shared_bytes) {
  const auto up = [](size_t n, size_t to) { return (n + to - 1) / to * to; };
  const auto warps = static_cast<unsigned>(up(threads, 32) / 32);
  const auto registers_of_warp = static_cast<unsigned>(up(size_t{registers} * 32, 256));
  const auto by_shared = static_cast<unsigned>(card.shared_bytes / up(shared_bytes + 1024, 128));
  const unsigned by_registers = registers_of_warp == 0 ? card.blocks : 4 * (16384 / registers_of_warp) / warps;
  Occupancy least{card.warps / warps, "threads"};  // a number of blocks, converted to warps below
  for (const Occupancy& other :
       {Occupancy{card.blocks, "blocks"}, {by_shared, "shared"}, {by_registers, "registers"}}) {
    if (other.warps < least.warps) least = other;
  }
  least.warps *= warps;
  return least;
}

Bound bound(const Card& card, const infer::gpu::host::Counts& counts) {
  const auto operations = [](uint64_t multiply_adds) { return 2.0 * static_cast<double>(multiply_adds); };
  return {32.0 * static_cast<double>(counts.distinct_sectors) / card.bytes_per_s,
          operations(counts.multiply_adds) / card.f32_per_s + operations(counts.tile_multiply_adds) / card.f16_per_s};
}

}  // namespace folio::experiments
