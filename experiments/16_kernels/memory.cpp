#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

CountingMemory::CountingMemory(const float* begin, size_t count)
    : begin_(begin), lines_(1 + (count * sizeof(float) + kLineBytes - 1) / kLineBytes) {}

void CountingMemory::unlink(uint32_t line) {
  lines_[lines_[line].newer].older = lines_[line].older;
  lines_[lines_[line].older].newer = lines_[line].newer;
}

void CountingMemory::touch(const float* at) {
  const auto line = static_cast<uint32_t>(1 + static_cast<size_t>(at - begin_) * sizeof(float) / kLineBytes);
  if (lines_[0].older == line) return;  // the last one again
  if (lines_[line].cached) {
    unlink(line);
  } else {
    ++fetched_;
    if (cached_ == kLines) {
      const uint32_t oldest = lines_[0].newer;
      unlink(oldest);
      lines_[oldest].cached = false;
    } else {
      ++cached_;
    }
    lines_[line].cached = true;
  }
  const uint32_t last = lines_[0].older;
  lines_[line].newer = 0;
  lines_[line].older = last;
  lines_[last].newer = line;
  lines_[0].older = line;
}

}  // namespace folio::experiments
