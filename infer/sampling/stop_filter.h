// From tokens' bytes to text that can be shown: whole UTF-8 characters, and nothing of a stop string. Stop strings are
// searched for as by Knuth, Morris and Pratt (1977): a text costs its bytes times the number of stops, however long
// they are and whatever they repeat.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio::infer {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);

  /// Takes a token's bytes and returns what can be shown so far. Once a stop string is complete, `stopped()` holds, and
  /// the text before it has been returned.
  [[nodiscard]] std::string push(std::string_view bytes);

  /// Whether a token of these bytes would complete a stop string.
  [[nodiscard]] bool would_stop(std::string_view bytes) const;

  /// What is still held back when the text ends without a stop string.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  struct Stop {
    std::string text;
    std::vector<uint32_t> fallback;  ///< of n bytes: the longest shorter beginning of the text that they end with
  };

  /// Advances `matched` by bytes that follow held_. Where the first stop string in both begins, or npos.
  [[nodiscard]] size_t read(std::string_view bytes, std::vector<size_t>& matched) const;

  std::vector<Stop> stops_;
  std::vector<size_t> matched_;  ///< of each stop, the longest beginning that held_ ends with
  std::string held_;
  bool stopped_ = false;
};

}  // namespace folio::infer
