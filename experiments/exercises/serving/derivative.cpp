// A text that has to match a regular expression, read byte by byte. Behind each byte only the rest is asked for: the
// derivative of a set of texts by a byte b (Brzozowski 1964) has what follows b in those of its texts that begin with
// b.
//
//     expression     by      derivative
//     abc            a       bc
//     abc            b       nothing: no text begins so
//     [a-c]x|by      b       x|y
//     a*b            a       a*b
//     a*b            b       the empty text
//
// A text matches if the rest behind its last byte has the empty text: then it may end. An expression is a tree, whose
// parts and functions are in regex.h: each kind has a rule of its own for may_end, and one for the derivative, which
// asks for those of its parts.
//
// Check it with: make exercise N=derivative
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Whether the empty text is one of r's.
bool may_end(const Regex& r) {
  throw Unfilled(
      "may_end is still to be written, in experiments/exercises/serving/derivative.cpp.\n"
      "Go through the kinds of r->kind. A sequence of two parts has the empty text only if both have it.");
}

// The rests behind `byte`: nothing(), empty(), sequence(), choice() and star() make them.
Regex derivative(const Regex& r, uint8_t byte) {
  throw Unfilled(
      "derivative is still to be written, in experiments/exercises/serving/derivative.cpp.\n"
      "Go through the kinds of r->kind. Of a choice it is the choice of the derivatives of its two parts.");
}

}  // namespace folio::exercises
