// Whether AddressSanitizer looks on. It sees a number too far in the first case of a kind; more cases are there for
// their numbers, which it would compute up to fifty times as slowly.
#pragma once

namespace folio::infer::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio::infer::test
