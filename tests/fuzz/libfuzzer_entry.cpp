// Defines the function that libFuzzer calls with each input.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

namespace {

size_t n_allocated = 0;

}  // namespace

size_t folio::fuzz::allocated_bytes() { return n_allocated; }

// AddressSanitizer calls this function for each allocation.
extern "C" void __sanitizer_malloc_hook(const volatile void* /*block*/, size_t size) { n_allocated += size; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  folio::fuzz::take({reinterpret_cast<const char*>(data), size});
  return 0;
}
