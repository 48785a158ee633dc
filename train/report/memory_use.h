// Memory that the tensors of the process use on a CPU, counted where LibTorch allocates and frees it.
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
  struct Block;
  c10::DataPtr allocate(size_t n) override;
  void copy_data(void* to, const void* from, size_t n) const override { inner_.copy_data(to, from, n); }

  c10::Allocator& inner_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace folio::train
