// Defines whether AddressSanitizer is on, under which tests run fewer cases: an access out of bounds is detected in the
// first case of a kind, and all cases would take up to fifty times longer.
#pragma once

namespace folio::infer::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio::infer::test
