// How much memory the tensors of the process take on a CPU, counted where LibTorch takes and frees it.
#pragma once

#include <cstdint>
#include <memory>

namespace folio::train {

/// Counts from its construction on, on all threads; what is older is not known to it. One at a time.
class MemoryUse {
 public:
  MemoryUse();
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  [[nodiscard]] int64_t bytes() const;
  /// The most since the last reset.
  [[nodiscard]] int64_t peak() const;
  void reset_peak();

 private:
  class Counting;
  std::unique_ptr<Counting> counting_;
};

}  // namespace folio::train
