#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  EitherPart,
  StarNeedsOne,
  EmptyForNothing,
  EmptyStays,
  ByteStays,
  LeftOnly,
  RestForgotten,
  WrongOrder,
  AlwaysPassed,
  NeverPassed,
  PassedOnly,
  StarOnce,
  StarOfRest,
};

template <Wrong kWrong>
Wrong is() {
  return kWrong;
}

const std::vector<Mistake<Wrong()>> kMistakes{
    {"either_part", "MayEndAsksForTheEmptyText", "Both parts of a sequence", is<Wrong::EitherPart>},
    {"star_needs_one", "MayEndAsksForTheEmptyText", "none is a number", is<Wrong::StarNeedsOne>},
    {"empty_for_nothing", "AnotherByteLeavesNothing", "empty() would be one text", is<Wrong::EmptyForNothing>},
    {"empty_stays", "AnotherByteLeavesNothing", "Nor does the empty text", is<Wrong::EmptyStays>},
    {"byte_stays", "AByteIsRead", "not the byte once more", is<Wrong::ByteStays>},
    {"left_only", "AChoiceGoesBothWays", "both derivatives", is<Wrong::LeftOnly>},
    {"rest_forgotten", "ASequenceGoesOn", "not one without the other", is<Wrong::RestForgotten>},
    {"wrong_order", "ASequenceGoesOn", "in this order", is<Wrong::WrongOrder>},
    {"always_passed", "ASequenceGoesOn", "before the first may end", is<Wrong::AlwaysPassed>},
    {"never_passed", "APartThatMayEndIsPassed", "may begin with b", is<Wrong::NeverPassed>},
    {"passed_only", "APartThatMayEndIsPassed", "another choice", is<Wrong::PassedOnly>},
    {"star_once", "AStarBeginsAgain", "not once only", is<Wrong::StarOnce>},
    {"star_of_rest", "AStarBeginsAgain", "not the rest of the part", is<Wrong::StarOfRest>},
};

Wrong wrong() {
  static const Wrong chosen_one = chosen(kMistakes, is<Wrong::None>)();
  return chosen_one;
}

}  // namespace

bool may_end(const Regex& r) {
  const Wrong w = wrong();
  switch (r->kind) {
    case RegexNode::Kind::Empty:
      return true;
    case RegexNode::Kind::Star:
      return w != Wrong::StarNeedsOne;
    case RegexNode::Kind::Sequence:
      return w == Wrong::EitherPart ? may_end(r->first) || may_end(r->second) : may_end(r->first) && may_end(r->second);
    case RegexNode::Kind::Choice:
      return may_end(r->first) || may_end(r->second);
    default:
      return false;
  }
}

Regex derivative(const Regex& r, uint8_t byte) {
  const Wrong w = wrong();
  switch (r->kind) {
    case RegexNode::Kind::Byte:
      if (!r->bytes[byte]) return w == Wrong::EmptyForNothing ? empty() : nothing();
      return w == Wrong::ByteStays ? r : empty();
    case RegexNode::Kind::Choice:
      if (w == Wrong::LeftOnly) return derivative(r->first, byte);
      return choice(derivative(r->first, byte), derivative(r->second, byte));
    case RegexNode::Kind::Star: {
      const Regex part = derivative(r->first, byte);
      return w == Wrong::StarOnce ? part : w == Wrong::StarOfRest ? star(part) : sequence(part, r);
    }
    case RegexNode::Kind::Sequence: {
      const Regex part = derivative(r->first, byte);
      const Regex within = w == Wrong::RestForgotten ? part
                           : w == Wrong::WrongOrder  ? sequence(r->second, part)
                                                     : sequence(part, r->second);
      if (w == Wrong::NeverPassed || (!may_end(r->first) && w != Wrong::AlwaysPassed)) return within;
      const Regex passed = derivative(r->second, byte);
      return w == Wrong::PassedOnly ? passed : choice(within, passed);
    }
    case RegexNode::Kind::Empty:
      return w == Wrong::EmptyStays ? r : nothing();
    default:
      return nothing();
  }
}

}  // namespace folio::exercises
