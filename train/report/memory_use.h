// CPU memory: counts the memory of the process's tensors in LibTorch's allocator, and configures the C library's
// allocator.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace folio::train {

/// Counts the memory of tensors allocated while it exists, by replacing LibTorch's CPU allocator. Only one may exist.
class MemoryUse final : private c10::Allocator {
 public:
  MemoryUse();
  ~MemoryUse() override;
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  [[nodiscard]] int64_t bytes() const { return count_->now; }
  /// Returns the maximum of bytes() since the last reset_peak().
  [[nodiscard]] int64_t peak() const { return count_->peak; }
  void reset_peak() { count_->peak = count_->now.load(); }

 private:
  struct Count {
    std::atomic<int64_t> now{0}, peak{0};
    void add(int64_t change);
  };
  struct Header;
  c10::DataPtr allocate(size_t n) override;
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  static void release(void* data);
  void copy_data(void* to, const void* from, size_t n) const override { inner_.copy_data(to, from, n); }

  c10::Allocator& inner_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

/// Configures glibc to keep freed memory. A step frees and allocates the same hundreds of megabytes, and returning them
/// to the system would cost page faults: 20,000 per step of the baby preset. Peak memory is unchanged. Does nothing
/// with other C libraries.
void keep_freed_memory();

}  // namespace folio::train
