// From tokens' bytes to text that can be shown: whole UTF-8 characters, and nothing of a stop string.
#pragma once

#include <string>
#include <string_view>

#include "core/shared_vector.h"

namespace folio::infer {

class StopFilter {
 public:
  explicit StopFilter(core::SharedVector<std::string> stops) : stops_(std::move(stops)) {}

  /// Takes a token's bytes and returns what can be shown so far. Once a stop string is complete, `stopped()` holds, and
  /// the text before it has been returned.
  [[nodiscard]] std::string push(std::string_view bytes);

  /// Whether a token of these bytes would complete a stop string.
  [[nodiscard]] bool would_stop(std::string_view bytes) const;

  /// What is still held back when the text ends without a stop string.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  [[nodiscard]] size_t first_stop(std::string_view text) const;

  core::SharedVector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace folio::infer
