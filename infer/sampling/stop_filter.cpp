#include "infer/sampling/stop_filter.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"

namespace folio::infer {

namespace {

// How many bytes of `text` a stretch ends with that ended with `n` and goes on with `byte`.
size_t next_match(std::string_view text, const std::vector<uint32_t>& fallback, size_t n, char byte) {
  while (n > 0 && (n == text.size() || text[n] != byte)) n = fallback[n];
  return text[n] == byte ? n + 1 : 0;
}

}  // namespace

StopFilter::StopFilter(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    std::vector<uint32_t> fallback(text.size() + 1);
    for (size_t n = 1; n < text.size(); ++n) {
      fallback[n + 1] = static_cast<uint32_t>(next_match(text, fallback, fallback[n], text[n]));
    }
    stops_.push_back({.text = std::move(text), .fallback = std::move(fallback)});
  }
  matched_.resize(stops_.size());
}

size_t StopFilter::read(std::string_view bytes, std::vector<size_t>& matched) const {
  size_t first = std::string::npos;
  for (size_t s = 0; s < stops_.size(); ++s) {
    const Stop& stop = stops_[s];
    for (size_t i = 0; i < bytes.size(); ++i) {
      matched[s] = next_match(stop.text, stop.fallback, matched[s], bytes[i]);
      if (matched[s] == stop.text.size()) first = std::min(first, held_.size() + i + 1 - stop.text.size());
    }
  }
  return first;
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
  for (const size_t n : matched_) show = std::min(show, held_.size() - n);  // it may grow into a stop string
  std::string shown = held_.substr(0, show);
  held_.erase(0, show);
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace folio::infer
