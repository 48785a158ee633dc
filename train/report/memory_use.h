// Memory on a CPU: what the tensors of the process use, counted where LibTorch allocates and frees it, and what the C
// library keeps.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace folio::train {

/// Replaces LibTorch's allocator while it exists, for all threads. Older tensors are not counted. One at a time.
class MemoryUse final : private c10::Allocator {
 public:
  MemoryUse();
  ~MemoryUse() override;
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  [[nodiscard]] int64_t bytes() const { return count_->now; }
  /// The most since the last reset.
  [[nodiscard]] int64_t peak() const { return count_->peak; }
  void reset_peak() { count_->peak = count_->now.load(); }

 private:
  struct Count {
    std::atomic<int64_t> now{0}, peak{0};
    void add(int64_t change);
  };
  c10::DataPtr allocate(size_t n) override;
  void copy_data(void* to, const void* from, size_t n) const override { inner_.copy_data(to, from, n); }

  c10::Allocator& inner_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

/// Lets the C library keep freed memory. A step frees and allocates the same hundreds of megabytes, and each page that
/// comes anew from the system costs a fault: 20,000 of them in a step of the baby preset. The peak stays the same. Does
/// nothing where the C library is not glibc.
void keep_freed_memory();

}  // namespace folio::train
