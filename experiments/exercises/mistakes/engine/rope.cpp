// The mistakes, each with the test that must fail first and words of its message:
//     minus_of_a_size_t: PositionZeroChangesNothing: has no negative numbers
//     exponent_in_whole_numbers: LaterPairsTurnSlower: whole numbers, 2 * i / head_dim
//     positions_from_one: PositionZeroChangesNothing: counted from 0
//     no_minus: LengthsAreKept: a wrong sign
//     overwritten_too_early: LengthsAreKept: overwritten before
//     halves_instead_of_neighbours: NeighboursArePairs: the halves of the head
//     angles_off_by_one: TheFirstPairTurnsByThePosition: its i - 1 is i
//     turns_backwards: TurnsFromTheFirstNumberTowardsTheSecond: turns backwards
//     all_pairs_alike: LaterPairsTurnSlower: is 0.841471, but
//     exponent_without_the_two: LaterPairsTurnSlower: is 0.0998334, but
//     fixed_theta: ThetaIsAParameter: fixed 10000
//     pairs_counted_over_all_heads: EveryHeadTurnsAlike: begins at 0 in each
//     table_of_256_positions: ScoresDependOnlyOnDistance: table of angles ends
#include <cmath>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {
namespace {

// Returns the factor of the position in the angle of a pair.
float frequency(size_t pair, size_t head_dim, float theta) {
  if (wrong("all_pairs_alike")) return 1.0F;
  // -2 * i with a size_t wraps to 2^64 - 2i.
  if (wrong("minus_of_a_size_t")) return std::pow(theta, static_cast<float>((size_t{0} - 2 * pair) / head_dim));
  if (wrong("exponent_in_whole_numbers")) return std::pow(theta, -static_cast<float>(2 * pair / head_dim));
  auto exponent = -2.0F * static_cast<float>(pair) / static_cast<float>(head_dim);
  if (wrong("exponent_without_the_two")) exponent /= 2.0F;
  // The RoFormer paper's exponent is -2(i - 1) / head_dim, with i starting at 1.
  if (wrong("angles_off_by_one")) exponent += 2.0F / static_cast<float>(head_dim);
  return std::pow(wrong("fixed_theta") ? 10000.0F : theta, exponent);
}

}  // namespace

void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  const size_t half = head_dim / 2;
  if (wrong("positions_from_one")) ++position;
  if (wrong("table_of_256_positions")) position %= 256;
  for (size_t h = 0; h < n_heads; ++h) {
    for (size_t i = 0; i < half; ++i) {
      const size_t pair = wrong("pairs_counted_over_all_heads") ? h * half + i : i;
      const float angle = static_cast<float>(position) * frequency(pair, head_dim, theta);
      const float cos = std::cos(angle);
      const float sin = wrong("turns_backwards") ? -std::sin(angle) : std::sin(angle);
      const bool halves = wrong("halves_instead_of_neighbours");
      float& first = x[h * head_dim + (halves ? i : 2 * i)];
      float& second = x[h * head_dim + (halves ? i + half : 2 * i + 1)];
      const float a = first;
      const float b = second;
      first = wrong("no_minus") ? a * cos + b * sin : a * cos - b * sin;
      second = (wrong("overwritten_too_early") ? first : a) * sin + b * cos;
    }
  }
}

}  // namespace folio::exercises
