// Matches a text with a regular expression byte by byte, by derivatives. The derivative of an expression with respect
// to a byte b (Brzozowski 1964) matches a text t if the expression matches b followed by t.
//
//     expression     by      derivative
//     abc            a       bc
//     abc            b       nothing: no match begins with b
//     [a-c]x|by      b       x|y
//     a*b            a       a*b
//     a*b            b       the empty text
//
// A text matches if the derivative with respect to all its bytes matches the empty text. An expression is a tree;
// regex.h declares its nodes and helper functions. may_end and derivative each need one rule per kind of node; the
// rules call them for the node's children.
//
// Check it with: make exercise N=derivative
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns true if r matches the empty text.
bool may_end(const Regex& r) {
  throw Unfilled(
      "may_end is still to be written, in experiments/exercises/serving/derivative.cpp.\n"
      "Go through the kinds of r->kind. A sequence of two parts has the empty text only if both have it.");
}

// Returns the derivative with respect to `byte`, built with nothing(), empty(), sequence(), choice() and star().
Regex derivative(const Regex& r, uint8_t byte) {
  throw Unfilled(
      "derivative is still to be written, in experiments/exercises/serving/derivative.cpp.\n"
      "Go through the kinds of r->kind. Of a choice it is the choice of the derivatives of its two parts.");
}

}  // namespace folio::exercises
