// Unicode normalization form C, which some tokenizers apply before they split text.
#pragma once

#include <string>
#include <string_view>

namespace folio::data {

/// Returns the text with characters composed where possible ("e" and U+0301 become "é"): Unicode Standard Annex 15.
/// Bytes that are not UTF-8 are kept.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace folio::data
