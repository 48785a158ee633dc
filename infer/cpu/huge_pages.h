// Huge-page memory for weights and the KV cache. Reads from 4 KiB pages have only two thirds to three quarters of the
// speed, because hardware prefetchers stop at page boundaries, and virtual machines translate each page twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace folio::infer {

struct FreeHugePages {
  void operator()(uint8_t* p) const { std::free(p); }
};
using HugePages = std::unique_ptr<uint8_t, FreeHugePages>;

inline constexpr size_t kHugePage = size_t{2} << 20U;

/// Allocates at least `bytes` of uninitialized memory, on huge pages if the system provides them. Pages become resident
/// when they are first written. Throws std::bad_alloc.
[[nodiscard]] HugePages allocate_huge_pages(size_t bytes);

}  // namespace folio::infer
