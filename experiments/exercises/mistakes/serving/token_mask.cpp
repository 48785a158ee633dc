#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  WholeTextsOnly,
  FirstByteOnly,
  EndsEarly,
  GoesOnWhereTheLastEnded,
  NeverEnds,
  AlwaysEnds,
  BytesOfTheEnd,
  WithoutBytes,
};

template <Wrong kWrong>
std::vector<bool> masked(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  using enum Wrong;
  const auto goes_on = [](const Regex& r) { return !is(r, RegexNode::Kind::Nothing); };
  std::vector<bool> mask(tokens.size(), false);
  Regex left = rest;
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::string bytes = tokens[t];
    if (t == end_token && kWrong != BytesOfTheEnd) {
      mask[t] = kWrong == NeverEnds ? false : kWrong == AlwaysEnds ? true : may_end(rest);
      continue;
    }
    if (bytes.empty()) {
      mask[t] = kWrong == WithoutBytes;
      continue;
    }
    if (kWrong == FirstByteOnly) bytes.resize(1);
    if (kWrong != GoesOnWhereTheLastEnded) left = rest;
    bool early = false;
    for (const char c : bytes) {
      left = derivative(left, static_cast<uint8_t>(c));
      early = early || may_end(left);
    }
    mask[t] = kWrong == WholeTextsOnly ? may_end(left) : goes_on(left) || (kWrong == EndsEarly && early);
    if (t == end_token) mask[t] = mask[t] || may_end(rest);
  }
  return mask;
}

const std::vector<Mistake<decltype(token_mask)>> kMistakes{
    {"whole_texts_only", "ATokenMayEndInTheMiddle", "a beginning will do", masked<Wrong::WholeTextsOnly>},
    {"goes_on", "EachTokenBeginsAnew", "where the one before it ended", masked<Wrong::GoesOnWhereTheLastEnded>},
    {"first_byte_only", "EveryByteIsRead", "not the first alone", masked<Wrong::FirstByteOnly>},
    {"ends_early", "NothingComesBehindTheEnd", "in its middle is not enough", masked<Wrong::EndsEarly>},
    {"never_ends", "TheEndComesWhereTheTextMayEnd", "that ends it may come", masked<Wrong::NeverEnds>},
    {"always_ends", "TheEndComesWhereTheTextMayEnd", "may not end yet", masked<Wrong::AlwaysEnds>},
    {"bytes_of_the_end", "TheEndComesWhereTheTextMayEnd", "its bytes are not read", masked<Wrong::BytesOfTheEnd>},
    {"without_bytes", "WithoutBytesNoTokenComes", "again and again", masked<Wrong::WithoutBytes>},
};

}  // namespace

std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token) {
  return chosen(kMistakes, masked<Wrong::None>)(rest, tokens, end_token);
}

}  // namespace folio::exercises
