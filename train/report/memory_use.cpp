#include "train/report/memory_use.h"

#include <c10/core/CPUAllocator.h>

namespace folio::train {

void MemoryUse::Count::add(int64_t change) {
  const int64_t bytes = now += change;
  for (int64_t most = peak; most < bytes && !peak.compare_exchange_weak(most, bytes);) {
  }
}

// A tensor's memory. Another thread may free it, also after the allocator is gone.
struct MemoryUse::Block {
  c10::DataPtr memory;
  int64_t size;
  std::shared_ptr<Count> count;

  static void free(void* block) {
    const std::unique_ptr<Block> freed(static_cast<Block*>(block));
    freed->count->add(-freed->size);
  }
};

MemoryUse::MemoryUse() : inner_(*c10::GetCPUAllocator()) { c10::SetCPUAllocator(this); }
MemoryUse::~MemoryUse() { c10::SetCPUAllocator(&inner_); }

c10::DataPtr MemoryUse::allocate(size_t n) {
  const auto size = static_cast<int64_t>(n);
  auto block = std::make_unique<Block>(Block{.memory = inner_.allocate(n), .size = size, .count = count_});
  count_->add(size);
  void* data = block->memory.get();
  const c10::Device device = block->memory.device();
  return {data, block.release(), &Block::free, device};
}

}  // namespace folio::train
