#include "train/report/memory_use.h"

#include <c10/core/CPUAllocator.h>

#include <limits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace folio::train {

void MemoryUse::Count::add(int64_t change) {
  const int64_t bytes = now += change;
  for (int64_t most = peak; most < bytes && !peak.compare_exchange_weak(most, bytes);) {
  }
}

MemoryUse::MemoryUse() : inner_(*c10::GetCPUAllocator()) { c10::SetCPUAllocator(this); }
MemoryUse::~MemoryUse() { c10::SetCPUAllocator(&inner_); }

c10::DataPtr MemoryUse::allocate(size_t n) {
  const auto size = static_cast<int64_t>(n);
  const auto memory = std::make_shared<c10::DataPtr>(inner_.allocate(n));
  count_->add(size);
  // The deleter shares ownership of the count, since it may run after this object is destroyed, on any thread.
  return c10::InefficientStdFunctionContext::makeDataPtr(
      memory->get(), [memory, size, count = count_](void*) { count->add(-size); }, memory->device());
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kLargest = 32 << 20;  // glibc's maximum for this threshold; larger blocks still use mmap
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace folio::train
