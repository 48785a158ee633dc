// Unicode's normalization form C, which some tokenizers apply to a text before they split it.
#pragma once

#include <string>
#include <string_view>

namespace folio::data {

/// The text with characters composed as far as possible ("e" and U+0301 become "é"): Unicode Standard Annex 15. Bytes
/// that are not UTF-8 stay as they are.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace folio::data
