// Turns tokens' bytes into text that can be shown: whole UTF-8 characters without stop strings. Bytes that may become a
// stop string are held back. Stop strings are searched for with Knuth, Morris and Pratt's algorithm (1977), in time
// proportional to the number of bytes times the number of stop strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shared_vector.h"

namespace folio::infer {

class StopFilter {
 public:
  explicit StopFilter(core::SharedVector<std::string> stops);

  /// Appends a token's bytes and returns the new text that can be shown. The first byte that completes a stop string
  /// ends the text: returns the text before the longest stop string that it completes, and stopped() is true from then
  /// on.
  [[nodiscard]] std::string push(std::string_view bytes);

  /// Returns true if a token with these bytes would complete a stop string.
  [[nodiscard]] bool would_stop(std::string_view bytes) const;

  /// Returns the text that is still held back, for an output that ends without a stop string.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  /// Returns the length of the longest prefix of stop string `s` that the text ends with after `byte`. `n` is that
  /// length before `byte`.
  [[nodiscard]] size_t advanced(size_t s, size_t n, char byte) const;
  /// Updates `matched` (see matched_) as if `bytes` were appended to held_. Returns the offset in held_ + bytes of the
  /// stop string that ends the text, or npos.
  [[nodiscard]] size_t read(std::string_view bytes, std::vector<size_t>& matched) const;

  core::SharedVector<std::string> stops_;
  std::vector<size_t> matched_;  ///< per stop string: length of the longest prefix that held_ ends with
  /// KMP failure function of each stop string, computed as needed. Element n is the length of the longest proper prefix
  /// of the stop string's first n bytes that is also a suffix of these bytes.
  mutable std::vector<std::vector<uint32_t>> fallbacks_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace folio::infer
