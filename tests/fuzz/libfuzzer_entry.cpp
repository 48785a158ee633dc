// Defines the function that libFuzzer calls with each input.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

// AddressSanitizer calls this function for each allocation.
extern "C" void __sanitizer_malloc_hook(const volatile void* /*block*/, size_t size) {
  folio::fuzz::allocated_bytes += size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  folio::fuzz::take({reinterpret_cast<const char*>(data), size});
  return 0;
}
