#include "train/step/allocator.h"

#include <cstdlib>
#include <limits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace folio::train {

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kLargest = 32 << 20;  // glibc accepts no more: larger blocks are mapped one by one as before
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace folio::train
