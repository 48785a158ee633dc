// A slow but simple regular expression matcher, to check derivatives against. For a sequence, it tries
// every split of the string into two parts.
#pragma once

#include <string>

#include "experiments/exercises/serving/regex.h"

namespace folio::exercises {

inline bool slow_match(const Regex& r, const std::string& text) {
  using enum RegexNode::Kind;
  switch (r->kind) {
    case Nothing:
      return false;
    case Empty:
      return text.empty();
    case Byte:
      return text.size() == 1 && r->bytes[static_cast<uint8_t>(text[0])];
    case Choice:
      return slow_match(r->first, text) || slow_match(r->second, text);
    default:  // Sequence or Star
      if (r->kind == Star && text.empty()) return true;
      for (size_t n = r->kind == Star ? 1 : 0; n <= text.size(); ++n) {
        if (slow_match(r->first, text.substr(0, n)) && slow_match(r->kind == Star ? r : r->second, text.substr(n))) {
          return true;
        }
      }
      return false;
  }
}

}  // namespace folio::exercises
