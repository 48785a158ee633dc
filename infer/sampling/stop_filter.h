// From tokens' bytes to text that can be shown: whole UTF-8 characters, and nothing of a stop string. Stop strings are
// searched for as by Knuth, Morris and Pratt (1977): a text costs its bytes times the number of stops, however long
// they are and whatever they repeat.
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

  /// Takes a token's bytes and returns what can be shown so far. Once a stop string is complete, `stopped()` holds, and
  /// the text before it has been returned.
  [[nodiscard]] std::string push(std::string_view bytes);

  /// Whether a token of these bytes would complete a stop string.
  [[nodiscard]] bool would_stop(std::string_view bytes) const;

  /// What is still held back when the text ends without a stop string.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  /// The length of the longest beginning of stop string `s` that a text ends with, which ended with `n` bytes of it
  /// before `byte`.
  [[nodiscard]] size_t advanced(size_t s, size_t n, char byte) const;
  /// Advances `matched` by bytes that follow held_. Where the first stop string in both begins, or npos.
  [[nodiscard]] size_t read(std::string_view bytes, std::vector<size_t>& matched) const;

  core::SharedVector<std::string> stops_;
  std::vector<size_t> matched_;  ///< of each stop, the longest beginning that held_ ends with
  /// Of each stop and each n that was matched so far: the longest shorter beginning that its first n bytes end with.
  mutable std::vector<std::vector<uint32_t>> fallbacks_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace folio::infer
