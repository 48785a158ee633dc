// A library to preload: allocates blocks of random sizes before main() and keeps half of them, so that the program's
// allocations get other addresses. FOLIO_HEAP_SEED determines the sizes.
#include <cstdlib>

namespace {

void* volatile kept;  // so that the compiler doesn't remove the allocations

[[gnu::constructor]] void perturb() {
  const char* text = std::getenv("FOLIO_HEAP_SEED");
  auto seed = static_cast<unsigned>(text == nullptr ? 0 : std::atoi(text));
  for (int i = 0; i < 5000; ++i) {
    kept = std::malloc(1 + static_cast<size_t>(::rand_r(&seed)) % 10000);
    if (::rand_r(&seed) % 2 == 0) std::free(kept);
  }
}

}  // namespace
