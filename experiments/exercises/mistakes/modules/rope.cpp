#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using Turn = Tensor(const RopeImpl& rope, const Tensor& x, int64_t first_position);

// Returns the angles [T, 1, P]: positions first, first + 1, … times theta^(exponent_i / head_dim).
Tensor angles(const RopeImpl& rope, const Tensor& x, int64_t first, const Tensor& exponents_P) {
  const auto positions_T = torch::arange(first, first + x.size(1), torch::kDouble);
  return torch::outer(positions_T, torch::pow(rope.theta, exponents_P / rope.head_dim)).unsqueeze(1);
}

Tensor even_numbers(const RopeImpl& rope) { return -torch::arange(0, rope.head_dim, 2, torch::kDouble); }

// Maps each adjacent pair (a, b) to (a · cos - b · sin, sign · a · sin + b · cos): a rotation if sign is 1.
Tensor turned(const Tensor& x, const Tensor& angles_T1P, double sign = 1.0) {
  const Tensor c = angles_T1P.cos().to(x.scalar_type()), s = angles_T1P.sin().to(x.scalar_type());
  const Tensor pairs = x.unflatten(-1, {-1, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return torch::stack({a * c - b * s, sign * a * s + b * c}, -1).flatten(-2);
}

Tensor sound_turn(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return turned(x, angles(rope, x, first, even_numbers(rope)));
}

Tensor positions_from_one(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return sound_turn(rope, x, first + 1);
}

Tensor wrong_sign(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return turned(x, angles(rope, x, first, even_numbers(rope)), -1.0);
}

Tensor angles_off_by_one(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return turned(x, angles(rope, x, first, even_numbers(rope) + 2));  // -2(i - 1), with i starting at 0 instead of 1
}

Tensor turns_backwards(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return turned(x, -angles(rope, x, first, even_numbers(rope)));
}

Tensor first_position_forgotten(const RopeImpl& rope, const Tensor& x, int64_t /*first*/) {
  return sound_turn(rope, x, 0);
}

Tensor pairs_of_halves(const RopeImpl& rope, const Tensor& x, int64_t first) {
  const auto side_by_side = x.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2);
  return sound_turn(rope, side_by_side, first).unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
}

Tensor two_forgotten(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return turned(x, angles(rope, x, first, even_numbers(rope) / 2));
}

Tensor turned_without_gradient(const RopeImpl& rope, const Tensor& x, int64_t first) {
  return x + (sound_turn(rope, x, first) - x).detach();
}

const std::vector<Mistake<Turn>> kRopeMistakes{
    {"positions_from_one", "PositionZeroIsTheIdentity", "counted from 1", positions_from_one},
    {"wrong_sign", "NormsAreKept", "Is a sign wrong", wrong_sign},
    {"angles_off_by_one", "TheFirstPairTurnsByOneRadianAStep", "exponent off by one", angles_off_by_one},
    {"turns_backwards", "TheFirstPairTurnsByOneRadianAStep", "direction wrong", turns_backwards},
    {"first_position_forgotten", "FirstPositionContinuesASequence", "begin with first_position",
     first_position_forgotten},
    {"pairs_of_halves", "EqualsRotationMatrices", "two neighbours", pairs_of_halves},
    {"two_forgotten", "EqualsRotationMatrices", "theta^(-2i / head_dim)", two_forgotten},
    {"turned_without_gradient", "GradientsEqualCentralDifferences", "taken out of the graph", turned_without_gradient},
};

}  // namespace

Tensor RopeImpl::apply(const Tensor& x_BTHK, int64_t first_position) const {
  return chosen(kRopeMistakes, sound_turn)(*this, x_BTHK, first_position);
}

}  // namespace folio::exercises
