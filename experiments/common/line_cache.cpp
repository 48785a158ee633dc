#include "experiments/common/line_cache.h"

namespace folio::experiments {

void LineCache::touch(size_t index, bool fetch, bool write) {
  const auto i = static_cast<uint32_t>(index + 1);
  Line& line = lines_[i];
  if (!line.cached) {
    if (n_cached_ == capacity_) drop(lines_[0].newer);
    line.cached = true;
    ++n_cached_;
    n_fetched_ += fetch ? 1 : 0;
  } else if (lines_[0].older != i) {
    unlink(i);
  }
  if (lines_[0].older != i) {  // mark the line as the most recently used
    line.newer = 0;
    line.older = lines_[0].older;
    lines_[line.older].newer = i;
    lines_[0].older = i;
  }
  n_dirty_ += write && !line.dirty ? 1 : 0;
  line.dirty = line.dirty || write;
}

void LineCache::unlink(uint32_t i) {
  lines_[lines_[i].newer].older = lines_[i].older;
  lines_[lines_[i].older].newer = lines_[i].newer;
}

void LineCache::drop(uint32_t i) {
  unlink(i);
  n_written_ += lines_[i].dirty ? 1 : 0;
  n_dirty_ -= lines_[i].dirty ? 1 : 0;
  lines_[i].cached = lines_[i].dirty = false;
  --n_cached_;
}

}  // namespace folio::experiments
