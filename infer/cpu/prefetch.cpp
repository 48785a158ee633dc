#include "infer/cpu/prefetch.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/isa.h"

namespace folio::infer {

Prefetch select_prefetch(size_t input_bytes) {
  // Larger inputs leave too little of L1 for weights: a Zen 4 (32 KiB) reads F16 rows at 25 GB/s with an input of 2048
  // floats and, without software prefetching, at 17 GB/s with 5632.
  constexpr size_t kStaysInL1 = size_t{8} << 10U;
  static const std::optional<Prefetch> forced_choice = []() -> std::optional<Prefetch> {
    constexpr std::array<std::pair<std::string_view, Prefetch>, 5> kNames{{{"none", Prefetch::None},
                                                                           {"l1", Prefetch::L1},
                                                                           {"l2", Prefetch::L2},
                                                                           {"l3", Prefetch::L3},
                                                                           {"once", Prefetch::Once}}};
    const char* forced = std::getenv("FOLIO_PREFETCH");
    if (forced == nullptr || *forced == '\0') return {};
    for (const auto& [name, level] : kNames) {
      if (name == forced) return level;
    }
    core::fail("FOLIO_PREFETCH={}: unknown value, expected none, l1, l2, l3 or once", core::printable(forced));
  }();
  if (forced_choice) return *forced_choice;
  return core::prefetches_streams() && input_bytes <= kStaysInL1 ? Prefetch::None : Prefetch::L2;
}

}  // namespace folio::infer
