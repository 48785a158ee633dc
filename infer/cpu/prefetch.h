// How weights come to the caches before they are needed: with few inputs a product waits for memory, not for
// arithmetic. Which level of the caches they are brought to never changes a bit.
#pragma once

#include <cstddef>
#include <type_traits>

namespace folio::infer {

enum class Prefetch { None, L1, L2, L3, Once };  ///< Once: as data that is read only once

/// What the environment's FOLIO_PREFETCH (none, l1, l2, l3, once) forces; read once. Otherwise L2: a core keeps track
/// of few lines on their way to L1 (12 on a Zen), which limits it to less than its memory gives; those on their way to
/// L2 are some fifty. But where core::prefetches_streams(), prefetches into L2 reach two thirds of what its memory
/// gives, and it is none: weights are read in the order in which they lie. `bench --memory` shows it. Throws
/// core::Error if the name is unknown.
[[nodiscard]] Prefetch select_prefetch();

}  // namespace folio::infer

namespace folio::infer::kernels {
namespace {

// Weights that are read in the order in which they lie, are prefetched in it, so far ahead.
constexpr size_t kBytesAhead = 4096;

template <Prefetch level>
inline void prefetch_line(const void* p) {
  if constexpr (level == Prefetch::L1) __builtin_prefetch(p, 0, 3);
  if constexpr (level == Prefetch::L2) __builtin_prefetch(p, 0, 2);
  if constexpr (level == Prefetch::L3) __builtin_prefetch(p, 0, 1);
  if constexpr (level == Prefetch::Once) __builtin_prefetch(p, 0, 0);
}

// Of what is to be written: other cores' copies of the line are given up by then.
inline void prefetch_to_write(const void* p) { __builtin_prefetch(p, 1, 3); }

// Calls body with the level as a constant, and returns what it does.
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
