#include "infer/sampling/stop_filter.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"

namespace folio::infer {

// Where the first stop string in it begins.
size_t StopFilter::first_stop(std::string_view text) const {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  return first;
}

bool StopFilter::would_stop(std::string_view bytes) const {
  if (stops_.empty()) return false;
  return first_stop(std::string(held_).append(bytes)) != std::string::npos;
}

std::string StopFilter::push(std::string_view bytes) {
  if (stopped_) return {};
  held_ += bytes;
  const size_t first = first_stop(held_);
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  size_t show = core::complete_utf8_prefix(held_);
  for (const std::string& stop : stops_) {  // an ending that may grow into a stop string waits
    for (size_t n = std::min(stop.size(), held_.size()); n > 0; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) {
        show = std::min(show, held_.size() - n);
        break;
      }
    }
  }
  std::string shown = held_.substr(0, show);
  held_.erase(0, show);
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace folio::infer
