// Q8_0: weights in 8 bits. 32 values share a scale, and each becomes an integer from -127 to 127:
//
//     scale = max |x_i| / 127
//     q_i   = x_i / scale, rounded to the nearest integer, so that x_i is about scale * q_i
//
// Example with x = (12.7, -6.35, 0.04, 0, …): scale = 0.1 and q = (127, -64, 0, 0, …); -63.5 is rounded away from 0.
// The error is at most half a scale. (In files the scale has 16 bits; here it is a float.) The dot product of two
// blocks sums the products of integers, which is exact, and multiplies by both scales once:
//
//     x · y = scale_x scale_y (sum over i of q_i p_i)        q, p: the integers of x and y
//
// Check it with: make exercise N=q8_0
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Quantizes 32 values. A block of zeros has a scale of 0 and quants of 0.
Q8Block quantize(const Floats& x) {
  throw Unfilled(
      "quantize is still to be written, in experiments/exercises/serving/q8_0.cpp.\n"
      "The largest absolute value first, then the scale, then each number divided by it: std::lround rounds to the "
      "nearest.");
}

float dot(const Q8Block& a, const Q8Block& b) {
  throw Unfilled(
      "quantize is there; dot is still to be written, in experiments/exercises/serving/q8_0.cpp.\n"
      "Add up the products of the quants as int32_t. The scales come at the end.");
}

}  // namespace folio::exercises
