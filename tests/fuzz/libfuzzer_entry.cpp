// What libFuzzer calls.
#include <cstdint>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  folio::fuzz::take({reinterpret_cast<const char*>(data), size});
  return 0;
}
