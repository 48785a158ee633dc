// Published limits of three GPUs and the registers of kernels, from which occupancy and lower bounds on times are
// computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/infer/cuda/host/counts.h"

namespace folio::experiments {

struct Card {
  std::string name;
  // Limits of a multiprocessor, from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
  unsigned warps;
  unsigned blocks;
  size_t shared_bytes;
  // Peak rates of the card, from NVIDIA's data sheets, without sparsity.
  double bytes_per_s;
  double f32_per_s;  ///< F32 operations; a multiply-add counts as two
  double f16_per_s;  ///< F16 operations of tensor cores with F32 accumulation
};

inline constexpr size_t kCards = 3;
/// Returns the A100 SXM 80 GB (Ampere, 8.0), the RTX 4090 (Ada, 8.9) and the H100 SXM (Hopper, 9.0).
[[nodiscard]] const std::array<Card, kCards>& cards();

struct Occupancy {
  unsigned warps = 0;  ///< resident warps per multiprocessor
  std::string limit;   ///< "threads", "blocks", "shared" or "registers"
};
/// Computes the occupancy of blocks of `threads` threads with `registers` each and `shared_bytes` of shared memory.
[[nodiscard]] Occupancy occupancy(const Card& card, unsigned threads, unsigned registers, size_t shared_bytes);

/// Returns the registers per thread of a kernel, such as "norm.cu:norm_block", for compute capability 9.0, or
/// std::nullopt if neither resources.txt of this folder nor that of infer/cuda lists the kernel.
[[nodiscard]] std::optional<unsigned> registers_of(const std::string& kernel);

/// Lower bounds on a kernel's time in seconds, assuming that each sector is transferred once and all work overlaps.
struct Bound {
  double memory = 0.0;      ///< time to transfer each distinct sector once at the peak bandwidth
  double arithmetic = 0.0;  ///< time of the multiply-adds at the card's peak rates
  [[nodiscard]] double seconds() const { return memory > arithmetic ? memory : arithmetic; }
};
[[nodiscard]] Bound bound(const Card& card, const infer::gpu::host::Counts& counts);

}  // namespace folio::experiments
