// Searches for the best scale of each group of a K type, as llama.cpp's ggml-quants.c does. With each of about twenty
// candidate scales, the values are rounded to levels, and weighted least squares refine the scale for these levels. The
// scale with the least weighted error is kept. Four groups are searched at a time, one per vector lane. A lane adds in
// element order, so its result is bit-equal to that of a scalar loop.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace folio::core {

constexpr size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(4 * kLanes)));
using IntLanes = int32_t __attribute__((vector_size(4 * kLanes)));

/// Q6_K stores a group as zeros if all of its values have a smaller magnitude.
constexpr float kNearlyZero = 1e-15F;

/// Four interleaved groups of n elements: array element i is a vector of element i of each group.
template <size_t n>
using LaneGroups = std::array<Lanes, n>;

/// Returns the nearest integers, ties to even, clamped to [low, high]. Like llama.cpp, reads them from the mantissa of
/// a sum, so values of magnitude 2^22 or more and non-finite values have the same wrong results as in llama.cpp.
inline IntLanes nearest(Lanes value, int32_t low, int32_t high) {
  const Lanes sum = value + 0x1.8p23F;
  const IntLanes integer = (std::bit_cast<IntLanes>(sum) & 0x7FFFFF) - 0x400000;
  const IntLanes raised = integer > low ? integer : IntLanes{} + low;
  return raised < high ? raised : IntLanes{} + high;
}

/// The fit of groups to scale * level + low, with level = nearest(by * (x - from)) in [0, top].
struct AffineFit {
  Lanes scale;
  Lanes low;  ///< lowest value that the fit represents, at most 0
  Lanes by;
  Lanes from;
};

/// The candidate scales of a search: (max - min of the group) / (top + first + i / 10) for i in [0, last].
struct AffineSearch {
  int32_t top;
  float first;
  int32_t last;
};

/// Fits four groups. Errors are weighted by |x| + rms(x). A group of equal values that are at most 0 gets the scale 0.
[[nodiscard]] AffineFit fit_affine(const LaneGroups<32>& x, const AffineSearch& search);

/// The fit of groups to scale * level, with level = nearest(by * x) in [-32, 31].
struct SymmetricFit {
  Lanes scale;
  Lanes by;
  IntLanes zero;  ///< true for groups of values that are all nearly 0: the scale is 0, the levels are -32
};

/// Fits four groups. Candidates map the largest |x| to -(32 + i / 10), i in [-9, 9]. Errors are weighted by x^2.
[[nodiscard]] SymmetricFit fit_symmetric(const LaneGroups<16>& x);

}  // namespace folio::core
