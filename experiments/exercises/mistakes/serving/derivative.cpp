// The mistakes, each with the test that must fail first and words of its message:
//     either_part: MayEndAsksForTheEmptyText: Both parts of a sequence
//     star_needs_one: MayEndAsksForTheEmptyText: none is a number
//     empty_for_nothing: AnotherByteLeavesNothing: empty() would be one text
//     empty_stays: AnotherByteLeavesNothing: Nor does the empty text
//     byte_stays: AByteIsRead: not the byte once more
//     left_only: AChoiceGoesBothWays: both derivatives
//     rest_forgotten: ASequenceGoesOn: not one without the other
//     wrong_order: ASequenceGoesOn: in this order
//     always_passed: ASequenceGoesOn: before the first may end
//     never_passed: APartThatMayEndIsPassed: may begin with b
//     passed_only: APartThatMayEndIsPassed: another choice
//     star_once: AStarBeginsAgain: not once only
//     star_of_rest: AStarBeginsAgain: not the rest of the part
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

bool may_end(const Regex& r) {
  switch (r->kind) {
    case RegexNode::Kind::Empty:
      return true;
    case RegexNode::Kind::Star:
      return !wrong("star_needs_one");
    case RegexNode::Kind::Sequence:
      return wrong("either_part") ? may_end(r->first) || may_end(r->second) : may_end(r->first) && may_end(r->second);
    case RegexNode::Kind::Choice:
      return may_end(r->first) || may_end(r->second);
    default:
      return false;
  }
}

Regex derivative(const Regex& r, uint8_t byte) {
  switch (r->kind) {
    case RegexNode::Kind::Byte:
      if (!r->bytes[byte]) return wrong("empty_for_nothing") ? empty() : nothing();
      return wrong("byte_stays") ? r : empty();
    case RegexNode::Kind::Choice:
      if (wrong("left_only")) return derivative(r->first, byte);
      return choice(derivative(r->first, byte), derivative(r->second, byte));
    case RegexNode::Kind::Star: {
      const Regex part = derivative(r->first, byte);
      return wrong("star_once") ? part : wrong("star_of_rest") ? star(part) : sequence(part, r);
    }
    case RegexNode::Kind::Sequence: {
      const Regex part = derivative(r->first, byte);
      const Regex within = wrong("rest_forgotten") ? part
                           : wrong("wrong_order")  ? sequence(r->second, part)
                                                   : sequence(part, r->second);
      if (wrong("never_passed") || (!may_end(r->first) && !wrong("always_passed"))) return within;
      const Regex passed = derivative(r->second, byte);
      return wrong("passed_only") ? passed : choice(within, passed);
    }
    case RegexNode::Kind::Empty:
      return wrong("empty_stays") ? r : nothing();
    default:
      return nothing();
  }
}

}  // namespace folio::exercises
