// How the K types choose the scale of a group of numbers (the method is that of llama.cpp's ggml-quants.c): each of
// some twenty scales gives a level to each number, the levels give the best scale by weighted least squares, and that
// with the least weighted error stays. Four groups are searched at a time, one in each lane of a vector. A lane adds in
// the order of its elements, so its bits are those of a loop over its group alone.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace folio::core {

constexpr size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(4 * kLanes)));
using IntLanes = int32_t __attribute__((vector_size(4 * kLanes)));

/// Groups with no number of this magnitude are zeros to Q6_K.
constexpr float kNearlyZero = 1e-15F;

/// Element i of four groups of n numbers.
template <size_t n>
using LaneGroups = std::array<Lanes, n>;

/// The nearest integers, ties to even, cut to [low, high]. It is the sum's mantissa, so numbers from 2^22 and those
/// that are not finite give some integer too: llama.cpp's.
inline IntLanes nearest(Lanes value, int32_t low, int32_t high) {
  const Lanes sum = value + 0x1.8p23F;
  const IntLanes integer = (std::bit_cast<IntLanes>(sum) & 0x7FFFFF) - 0x400000;
  const IntLanes raised = integer > low ? integer : IntLanes{} + low;
  return raised < high ? raised : IntLanes{} + high;
}

/// What was found for groups whose numbers are scale * level + low, with levels in [0, top]. These are
/// nearest(by * (x - from)).
struct AffineFit {
  Lanes scale;
  Lanes low;  ///< at most 0
  Lanes by;
  Lanes from;
};

/// The scales that are tried: (top + first + i / 10) levels for the range of the numbers, i in [0, last].
struct AffineSearch {
  int32_t top;
  float first;
  int32_t last;
};

/// Numbers weigh |x| and the group's root mean square. A group of equal numbers that are at most 0 has the scale 0.
[[nodiscard]] AffineFit fit_affine(const LaneGroups<32>& x, const AffineSearch& search);

/// What was found for groups whose numbers are scale * level, with levels in [-32, 31]. These are nearest(by * x).
struct SymmetricFit {
  Lanes scale;
  Lanes by;
  IntLanes zero;  ///< groups whose numbers are all 0, or nearly: the scale is 0, and the levels are -32
};

/// The largest number gets 32 + i / 10 levels of its side, i in [-9, 9]. Numbers weigh x^2.
[[nodiscard]] SymmetricFit fit_symmetric(const LaneGroups<16>& x);

}  // namespace folio::core
