// The mistakes, each with the test that must fail first and words of its message:
//     whole_texts_only: ATokenMayEndInTheMiddle: a beginning will do
//     goes_on: EachTokenBeginsAnew: where the one before it ended
//     first_byte_only: EveryByteIsRead: not the first alone
//     ends_early: NothingComesBehindTheEnd: in its middle is not enough
//     never_ends: TheEndComesWhereTheTextMayEnd: that ends it may come
//     always_ends: TheEndComesWhereTheTextMayEnd: may not end yet
//     bytes_of_the_end: TheEndComesWhereTheTextMayEnd: its bytes are not read
//     without_bytes: WithoutBytesNoTokenComes: again and again
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  const auto goes_on = [](const Regex& r) { return !is(r, RegexNode::Kind::Nothing); };
  std::vector<bool> mask(tokens.size(), false);
  Regex left = rest;
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::string bytes = tokens[t];
    if (t == end_token && !wrong("bytes_of_the_end")) {
      mask[t] = wrong("never_ends") ? false : wrong("always_ends") ? true : may_end(rest);
      continue;
    }
    if (bytes.empty()) {
      mask[t] = wrong("without_bytes");
      continue;
    }
    if (wrong("first_byte_only")) bytes.resize(1);
    if (!wrong("goes_on")) left = rest;
    bool early = false;
    for (const char c : bytes) {
      left = derivative(left, static_cast<uint8_t>(c));
      early = early || may_end(left);
    }
    mask[t] = wrong("whole_texts_only") ? may_end(left) : goes_on(left) || (wrong("ends_early") && early);
    if (t == end_token) mask[t] = mask[t] || may_end(rest);
  }
  return mask;
}

}  // namespace folio::exercises
