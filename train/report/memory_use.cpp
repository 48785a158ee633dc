#include "train/report/memory_use.h"

#include <c10/core/CPUAllocator.h>

#include <limits>
#include <new>
#include <utility>

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

// Stored before the data, since a deleter gets only the data's address from oneDNN, which calls raw_allocate(). Shares
// ownership of the count, as the deleter may run after MemoryUse is destroyed, on any thread.
struct alignas(64) MemoryUse::Header {
  c10::DataPtr memory;
  int64_t size;
  std::shared_ptr<Count> count;
};

c10::DataPtr MemoryUse::allocate(size_t n) {
  const auto size = static_cast<int64_t>(n);
  c10::DataPtr memory = inner_.allocate(sizeof(Header) + n);
  const c10::Device device = memory.device();
  void* place = memory.get();
  auto* header = new (place) Header{.memory = std::move(memory), .size = size, .count = count_};
  count_->add(size);
  return {header + 1, header + 1, &release, device};
}

void MemoryUse::release(void* data) {
  Header* header = static_cast<Header*>(data) - 1;
  const c10::DataPtr memory = std::move(header->memory);  // frees the header, too
  header->count->add(-header->size);
  header->~Header();
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kLargest = 32 << 20;  // glibc's maximum for this threshold; larger blocks still use mmap
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace folio::train
