// True under AddressSanitizer. It detects an access out of bounds in the first case of a kind; the other cases only
// test values, and would run up to fifty times slower.
#pragma once

namespace folio::infer::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio::infer::test
