#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

bool may_end(const Regex& r) {
  using enum RegexNode::Kind;
  switch (r->kind) {
    case Empty:
    case Star:
      return true;
    case Sequence:
      return may_end(r->first) && may_end(r->second);
    case Choice:
      return may_end(r->first) || may_end(r->second);
    default:
      return false;
  }
}

Regex derivative(const Regex& r, uint8_t byte) {
  using enum RegexNode::Kind;
  switch (r->kind) {
    case Byte:
      return r->bytes[byte] ? empty() : nothing();
    case Choice:
      return choice(derivative(r->first, byte), derivative(r->second, byte));
    case Star:
      return sequence(derivative(r->first, byte), r);
    case Sequence: {
      const Regex within = sequence(derivative(r->first, byte), r->second);
      return may_end(r->first) ? choice(within, derivative(r->second, byte)) : within;
    }
    default:
      return nothing();
  }
}

}  // namespace folio::exercises
