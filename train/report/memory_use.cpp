#include "train/report/memory_use.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace folio::train {
// Stands in front of LibTorch's allocator.
class MemoryUse::Counting : public c10::Allocator {
 public:
  struct Bytes {
    std::mutex mutex;
    int64_t now = 0, peak = 0;

    void add(int64_t change) {
      const std::lock_guard lock(mutex);
      now += change;
      peak = std::max(peak, now);
    }
  };

  Counting() : inner_(*c10::GetCPUAllocator()), bytes_(std::make_shared<Bytes>()) { c10::SetCPUAllocator(this); }
  ~Counting() override { c10::SetCPUAllocator(&inner_); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  c10::DataPtr allocate(size_t n) override {
    const auto size = static_cast<int64_t>(n);
    auto block = std::make_unique<Block>(Block{.memory = inner_.allocate(n), .size = size, .bytes = bytes_});
    bytes_->add(size);
    void* data = block->memory.get();
    const c10::Device device = block->memory.device();
    return {data, block.release(), &Block::free, device};
  }
  void copy_data(void* to, const void* from, size_t n) const override { inner_.copy_data(to, from, n); }

  [[nodiscard]] Bytes& bytes() { return *bytes_; }

 private:
  // A tensor's memory; it may be freed by another thread, and after the allocator is gone.
  struct Block {
    c10::DataPtr memory;
    int64_t size;
    std::shared_ptr<Bytes> bytes;

    static void free(void* block) {
      const std::unique_ptr<Block> freed(static_cast<Block*>(block));
      freed->bytes->add(-freed->size);
    }
  };

  c10::Allocator& inner_;
  std::shared_ptr<Bytes> bytes_;
};

MemoryUse::MemoryUse() : counting_(std::make_unique<Counting>()) {}
MemoryUse::~MemoryUse() = default;

int64_t MemoryUse::bytes() const {
  const std::lock_guard lock(counting_->bytes().mutex);
  return counting_->bytes().now;
}

int64_t MemoryUse::peak() const {
  const std::lock_guard lock(counting_->bytes().mutex);
  return counting_->bytes().peak;
}

void MemoryUse::reset_peak() {
  const std::lock_guard lock(counting_->bytes().mutex);
  counting_->bytes().peak = counting_->bytes().now;
}

}  // namespace folio::train
