#include "infer/sampling/stop_filter.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"

namespace folio::infer {

StopFilter::StopFilter(core::SharedVector<std::string> stops)
    : stops_(std::move(stops)), matched_(stops_.size()), fallbacks_(stops_.size(), {0}) {}

size_t StopFilter::advanced(size_t s, size_t n, char byte) const {
  const std::string& text = stops_[s];
  std::vector<uint32_t>& fallback = fallbacks_[s];
  const auto step = [&](size_t k, char c) {
    while (k > 0 && (k == text.size() || text[k] != c)) k = fallback[k];
    return text[k] == c ? k + 1 : 0;
  };
  n = step(n, byte);
  if (n == fallback.size()) {
    fallback.push_back(n == 1 ? 0 : static_cast<uint32_t>(step(fallback[n - 1], text[n - 1])));
  }
  return n;
}

size_t StopFilter::read(std::string_view bytes, std::vector<size_t>& matched) const {
  for (size_t i = 0; i < bytes.size(); ++i) {
    size_t longest = 0;  // length of the longest stop string that ends with bytes[i]
    for (size_t s = 0; s < stops_.size(); ++s) {
      if (stops_[s].empty()) continue;
      matched[s] = advanced(s, matched[s], bytes[i]);
      if (matched[s] == stops_[s].size()) longest = std::max(longest, matched[s]);
    }
    if (longest > 0) return held_.size() + i + 1 - longest;
  }
  return std::string::npos;
}

bool StopFilter::would_stop(std::string_view bytes) const {
  std::vector<size_t> matched = matched_;
  return read(bytes, matched) != std::string::npos;
}

std::string StopFilter::push(std::string_view bytes) {
  if (stopped_) return {};
  const size_t first = read(bytes, matched_);
  held_ += bytes;
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  size_t show = core::complete_utf8_prefix(held_);
  for (const size_t n : matched_) show = std::min(show, held_.size() - n);  // hold back possible stop strings
  std::string shown = held_.substr(0, show);
  held_.erase(0, show);
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace folio::infer
