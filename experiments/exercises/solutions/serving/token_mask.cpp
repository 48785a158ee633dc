#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  std::vector<bool> mask(tokens.size(), false);
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (t == end_token) {
      mask[t] = may_end(rest);
      continue;
    }
    Regex left = rest;
    for (const char c : tokens[t]) left = derivative(left, static_cast<uint8_t>(c));
    mask[t] = !tokens[t].empty() && !is(left, RegexNode::Kind::Nothing);
  }
  return mask;
}

}  // namespace folio::exercises
