#include "train/report/memory_use.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <mutex>

namespace folio::train {

class MemoryUse::Tally : public c10::MemoryReportingInfoBase {
 public:
  // Also from Gloo's threads, which work in the name of this one.
  void reportMemoryUsage(void*, int64_t change, size_t, size_t, c10::Device) override {
    const std::lock_guard lock(mutex_);
    now_.bytes += change;
    now_.peak = std::max(now_.peak, now_.bytes);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  struct Now {
    int64_t bytes = 0, peak = 0;
  };
  [[nodiscard]] Now now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    now_.peak = now_.bytes;
  }

 private:
  std::mutex mutex_;
  Now now_;
};

MemoryUse::MemoryUse() : tally_(std::make_shared<Tally>()), guard_(c10::DebugInfoKind::PROFILER_STATE, tally_) {}
MemoryUse::~MemoryUse() = default;

int64_t MemoryUse::bytes() const { return tally_->now().bytes; }
int64_t MemoryUse::peak() const { return tally_->now().peak; }
void MemoryUse::reset_peak() { tally_->reset_peak(); }

}  // namespace folio::train
