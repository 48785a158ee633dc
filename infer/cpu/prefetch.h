// Software prefetching of weights: with few inputs, products are bound by memory rather than arithmetic. The cache
// level affects only speed, never results.
#pragma once

#include <cstddef>
#include <type_traits>

namespace folio::infer {

enum class Prefetch { None, L1, L2, L3, Once };  ///< target cache; Once is non-temporal, for data read once

/// Returns the prefetch level: the value of FOLIO_PREFETCH (none, l1, l2, l3, once) at the first call, if set. The
/// default is None if core::prefetches_streams() and a product's input (`input_bytes`) fits in L1 along with weights.
/// Otherwise, it is L2, which allows more lines in flight than L1. Throws core::Error if FOLIO_PREFETCH is invalid.
[[nodiscard]] Prefetch select_prefetch(size_t input_bytes = 0);

}  // namespace folio::infer

namespace folio::infer::kernels {
namespace {

// Prefetch distance in bytes for weights that are read sequentially.
constexpr size_t kBytesAhead = 4096;

template <Prefetch level>
inline void prefetch_line(const void* p) {
  if constexpr (level == Prefetch::L1) __builtin_prefetch(p, 0, 3);
  if constexpr (level == Prefetch::L2) __builtin_prefetch(p, 0, 2);
  if constexpr (level == Prefetch::L3) __builtin_prefetch(p, 0, 1);
  if constexpr (level == Prefetch::Once) __builtin_prefetch(p, 0, 0);
}

// Prefetches a line for writing, which invalidates other cores' copies ahead of time.
inline void prefetch_to_write(const void* p) { __builtin_prefetch(p, 1, 3); }

// Calls body with the level as a compile-time constant and returns its result.
template <typename Body>
inline auto with_level(Prefetch level, Body&& body) {
  switch (level) {
    case Prefetch::L1:
      return body(std::integral_constant<Prefetch, Prefetch::L1>{});
    case Prefetch::L2:
      return body(std::integral_constant<Prefetch, Prefetch::L2>{});
    case Prefetch::L3:
      return body(std::integral_constant<Prefetch, Prefetch::L3>{});
    case Prefetch::Once:
      return body(std::integral_constant<Prefetch, Prefetch::Once>{});
    default:
      return body(std::integral_constant<Prefetch, Prefetch::None>{});
  }
}

}  // namespace
}  // namespace folio::infer::kernels
