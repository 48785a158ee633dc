#include "infer/cpu/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace folio::infer {

HugePages allocate_huge_pages(size_t bytes) {
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  HugePages pages(static_cast<uint8_t*>(std::aligned_alloc(kHugePage, whole)));
  if (pages == nullptr) throw std::bad_alloc();
  ::madvise(pages.get(), whole, MADV_HUGEPAGE);
  return pages;
}

}  // namespace folio::infer
