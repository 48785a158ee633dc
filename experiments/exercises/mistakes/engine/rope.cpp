#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

float frequency(size_t pair, size_t head_dim, float theta) {
  return std::pow(theta, -2.0F * static_cast<float>(pair) / static_cast<float>(head_dim));
}

// Rotates each adjacent pair (a, b) by angle(i, h), where i is the index of the pair in head h.
template <typename Angle>
void turn_by(float* x, size_t n_heads, size_t head_dim, Angle angle) {
  for (size_t h = 0; h < n_heads; ++h) {
    for (size_t i = 0; i < head_dim / 2; ++i) {
      float& first = x[h * head_dim + 2 * i];
      float& second = x[h * head_dim + 2 * i + 1];
      const float a = first;
      const float b = second;
      first = a * std::cos(angle(i, h)) - b * std::sin(angle(i, h));
      second = a * std::sin(angle(i, h)) + b * std::cos(angle(i, h));
    }
  }
}

void positions_from_one(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  reference::rope(x, position + 1, n_heads, head_dim, theta);
}

void no_minus(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  for (size_t i = 0; i < n_heads * head_dim / 2; ++i) {
    const float angle = static_cast<float>(position) * frequency(i % (head_dim / 2), head_dim, theta);
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * std::cos(angle) + b * std::sin(angle);
    x[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

void overwritten_too_early(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  for (size_t i = 0; i < n_heads * head_dim / 2; ++i) {
    const float angle = static_cast<float>(position) * frequency(i % (head_dim / 2), head_dim, theta);
    x[2 * i] = x[2 * i] * std::cos(angle) - x[2 * i + 1] * std::sin(angle);
    x[2 * i + 1] = x[2 * i] * std::sin(angle) + x[2 * i + 1] * std::cos(angle);
  }
}

void halves_instead_of_neighbours(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  const size_t half = head_dim / 2;
  for (size_t h = 0; h < n_heads; ++h) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequency(i, head_dim, theta);
      float& first = x[h * head_dim + i];
      float& second = x[h * head_dim + i + half];
      const float a = first;
      const float b = second;
      first = a * std::cos(angle) - b * std::sin(angle);
      second = a * std::sin(angle) + b * std::cos(angle);
    }
  }
}

// Deliberate mistake: the RoFormer paper's exponent -2(i - 1) / head_dim, but with i starting at 0 instead of 1.
void angles_off_by_one(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  const float step = std::pow(theta, 2.0F / static_cast<float>(head_dim));
  turn_by(x, n_heads, head_dim,
          [&](size_t i, size_t) { return static_cast<float>(position) * step * frequency(i, head_dim, theta); });
}

void turns_backwards(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  turn_by(x, n_heads, head_dim,
          [&](size_t i, size_t) { return -static_cast<float>(position) * frequency(i, head_dim, theta); });
}

void all_pairs_alike(float* x, size_t position, size_t n_heads, size_t head_dim, float /*theta*/) {
  turn_by(x, n_heads, head_dim, [&](size_t, size_t) { return static_cast<float>(position); });
}

void exponent_without_the_two(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  turn_by(x, n_heads, head_dim,
          [&](size_t i, size_t) { return static_cast<float>(position) * frequency(i, 2 * head_dim, theta); });
}

void fixed_theta(float* x, size_t position, size_t n_heads, size_t head_dim, float /*theta*/) {
  reference::rope(x, position, n_heads, head_dim, 10000.0F);
}

void pairs_counted_over_all_heads(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  turn_by(x, n_heads, head_dim, [&](size_t i, size_t h) {
    return static_cast<float>(position) * frequency(h * head_dim / 2 + i, head_dim, theta);
  });
}

void table_of_256_positions(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  reference::rope(x, position % 256, n_heads, head_dim, theta);
}

// Deliberate mistake: computes -2 * i with a size_t i, which wraps to 2^64 - 2i.
void minus_of_a_size_t(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  turn_by(x, n_heads, head_dim, [&](size_t i, size_t) {
    return static_cast<float>(position) * std::pow(theta, static_cast<float>((size_t{0} - 2 * i) / head_dim));
  });
}

// Deliberate mistake: divides integers, so 2 * i / head_dim is 0 for every pair.
void exponent_in_whole_numbers(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  turn_by(x, n_heads, head_dim, [&](size_t i, size_t) {
    return static_cast<float>(position) * std::pow(theta, -static_cast<float>(2 * i / head_dim));
  });
}

const std::vector<Mistake<decltype(rope)>> kMistakes{
    {"minus_of_a_size_t", "PositionZeroChangesNothing", "has no negative numbers", minus_of_a_size_t},
    {"exponent_in_whole_numbers", "LaterPairsTurnSlower", "whole numbers, 2 * i / head_dim", exponent_in_whole_numbers},
    {"positions_from_one", "PositionZeroChangesNothing", "counted from 0", positions_from_one},
    {"no_minus", "LengthsAreKept", "a wrong sign", no_minus},
    {"overwritten_too_early", "LengthsAreKept", "overwritten before", overwritten_too_early},
    {"halves_instead_of_neighbours", "NeighboursArePairs", "the halves of the head", halves_instead_of_neighbours},
    {"angles_off_by_one", "TheFirstPairTurnsByThePosition", "its i - 1 is i", angles_off_by_one},
    {"turns_backwards", "TurnsFromTheFirstNumberTowardsTheSecond", "turns backwards", turns_backwards},
    {"all_pairs_alike", "LaterPairsTurnSlower", "is 0.841471, but", all_pairs_alike},
    {"exponent_without_the_two", "LaterPairsTurnSlower", "is 0.0998334, but", exponent_without_the_two},
    {"fixed_theta", "ThetaIsAParameter", "fixed 10000", fixed_theta},
    {"pairs_counted_over_all_heads", "EveryHeadTurnsAlike", "begins at 0 in each", pairs_counted_over_all_heads},
    {"table_of_256_positions", "ScoresDependOnlyOnDistance", "table of angles ends", table_of_256_positions},
};

}  // namespace

void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  chosen(kMistakes, reference::rope)(x, position, n_heads, head_dim, theta);
}

}  // namespace folio::exercises
