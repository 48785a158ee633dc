// Defines kSanitized, which is true in builds with AddressSanitizer. Tests then run fewer cases: the first case of a
// kind detects an access out of bounds, and all cases would take up to fifty times longer.
#pragma once

namespace folio::infer::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio::infer::test
