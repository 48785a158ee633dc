// How much memory the tensors of a thread take, counted where LibTorch takes and frees it.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace folio::train {

/// Counts from its construction on, on the thread that made it; what is older is not known to it.
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
  class Tally;
  std::shared_ptr<Tally> tally_;
  c10::DebugInfoGuard guard_;
};

}  // namespace folio::train
