// The mistakes, each with the test that must fail first and words of its message:
//     positions_from_one: PositionZeroIsTheIdentity: counted from 1
//     angles_stay_double: PositionZeroIsTheIdentity: brought to x's type
//     wrong_sign: NormsAreKept: Is a sign wrong
//     angles_off_by_one: TheFirstPairTurnsByOneRadianAStep: exponent off by one
//     turns_backwards: TheFirstPairTurnsByOneRadianAStep: direction wrong
//     first_position_forgotten: FirstPositionContinuesASequence: begin with first_position
//     pairs_of_halves: EqualsRotationMatrices: two neighbours
//     two_forgotten: EqualsRotationMatrices: theta^(-2i / head_dim)
//     turned_without_gradient: GradientsEqualCentralDifferences: taken out of the graph
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RopeImpl::apply(const Tensor& input, int64_t first_position) const {
  if (wrong("positions_from_one")) ++first_position;
  if (wrong("first_position_forgotten")) first_position = 0;
  const auto position_T = torch::arange(first_position, first_position + input.size(1), torch::kDouble);
  Tensor exponent_P = -torch::arange(0, head_dim, 2, torch::kDouble);
  if (wrong("angles_off_by_one")) exponent_P += 2;  // -2(i - 1), with i starting at 0 instead of 1
  if (wrong("two_forgotten")) exponent_P /= 2;
  Tensor angle_T1P = torch::outer(position_T, torch::pow(theta, exponent_P / head_dim)).unsqueeze(1);
  if (wrong("turns_backwards")) angle_T1P = -angle_T1P;

  const bool halves = wrong("pairs_of_halves");
  const Tensor x = halves ? input.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2) : input;
  const auto type = wrong("angles_stay_double") ? torch::kDouble : x.scalar_type();
  const Tensor c = angle_T1P.cos().to(type), s = angle_T1P.sin().to(type);
  const Tensor pairs = x.unflatten(-1, {-1, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  const double sign = wrong("wrong_sign") ? -1.0 : 1.0;
  const Tensor turned = torch::stack({a * c - b * s, sign * a * s + b * c}, -1).flatten(-2);
  if (halves) return turned.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
  return wrong("turned_without_gradient") ? x + (turned - x).detach() : turned;
}

}  // namespace folio::exercises
