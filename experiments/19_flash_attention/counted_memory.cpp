#include "experiments/19_flash_attention/counted_memory.h"

namespace folio::experiments {

size_t CountedMemory::allocate(size_t n) {
  const size_t at = numbers_.size();
  lines_.resize(lines_.size() + (n + kLineNumbers - 1) / kLineNumbers);
  numbers_.resize(lines_.size() * kLineNumbers);
  return at;
}

const float* CountedMemory::load(size_t at, size_t n) {
  touch(at, n, true, false);
  return numbers_.data() + at;
}

float* CountedMemory::store(size_t at, size_t n) {
  touch(at, n, false, true);
  return numbers_.data() + at;
}

float* CountedMemory::update(size_t at, size_t n) {
  touch(at, n, true, true);
  return numbers_.data() + at;
}

void CountedMemory::touch(size_t at, size_t n, bool fetch, bool write) {
  const auto end = static_cast<uint32_t>((at + n + kLineNumbers - 1) / kLineNumbers);
  for (auto i = static_cast<uint32_t>(at / kLineNumbers); i < end; ++i) {
    Line& line = lines_[i];
    if (line.cached) {
      unlink(i);
    } else {
      if (n_cached_ == capacity_) evict_oldest();
      line.cached = true;
      ++n_cached_;
      fetched_ += fetch ? 1 : 0;
    }
    put_newest(i);
    n_dirty_ += write && !line.dirty ? 1 : 0;
    line.dirty = line.dirty || write;
  }
}

void CountedMemory::unlink(uint32_t i) {
  const Line& line = lines_[i];
  (line.older == kNone ? oldest_ : lines_[line.older].newer) = line.newer;
  (line.newer == kNone ? newest_ : lines_[line.newer].older) = line.older;
}

void CountedMemory::put_newest(uint32_t i) {
  lines_[i].older = newest_;
  lines_[i].newer = kNone;
  (newest_ == kNone ? oldest_ : lines_[newest_].newer) = i;
  newest_ = i;
}

void CountedMemory::evict_oldest() {
  const uint32_t i = oldest_;
  unlink(i);
  written_ += lines_[i].dirty ? 1 : 0;
  n_dirty_ -= lines_[i].dirty ? 1 : 0;
  lines_[i].cached = lines_[i].dirty = false;
  --n_cached_;
}

}  // namespace folio::experiments
