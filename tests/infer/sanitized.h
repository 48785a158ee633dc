// Defines kSanitized, which is true in builds with AddressSanitizer. Tests then run fewer cases, since one case of each
// kind is enough to detect an out-of-bounds access, and all cases would take up to fifty times as long.
#pragma once

namespace folio::infer::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio::infer::test
