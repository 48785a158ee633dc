#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

constexpr size_t kOfLine = LineCache::kLineBytes / sizeof(float);

CountingMemory::CountingMemory(const float* begin, size_t count)
    : begin_(begin), cache_(kCacheBytes, (count + kOfLine - 1) / kOfLine) {}

void CountingMemory::touch(const float* at) {
  const size_t line = static_cast<size_t>(at - begin_) / kOfLine;
  cache_.touch(line, true, false);
}

}  // namespace folio::experiments
