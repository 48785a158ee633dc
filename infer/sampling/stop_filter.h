// Between the tokens' bytes and the reader: lets whole UTF-8 characters through, and nothing of a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio::infer {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Takes a token's bytes, returns what can be shown by now. After a stop string came whole, `stopped()` holds and
  /// what stood before it has been returned.
  [[nodiscard]] std::string push(std::string_view bytes);

  /// What was still held back when the text ends without a stop.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace folio::infer
