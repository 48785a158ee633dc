// Preloaded into a program, allocates blocks of random sizes before main() and keeps half of them, so that what the
// program allocates later lies elsewhere. FOLIO_HEAP_SEED decides the sizes.
#include <cstdlib>

namespace {

void* volatile kept;  // the compiler may not leave the allocations out

[[gnu::constructor]] void perturb() {
  const char* text = std::getenv("FOLIO_HEAP_SEED");
  auto seed = static_cast<unsigned>(text == nullptr ? 0 : std::atoi(text));
  for (int i = 0; i < 5000; ++i) {
    kept = std::malloc(1 + static_cast<size_t>(::rand_r(&seed)) % 10000);
    if (::rand_r(&seed) % 2 == 0) std::free(kept);
  }
}

}  // namespace
