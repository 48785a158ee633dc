// Ranks, weights and the choice of a token, for the kernels of sample.cu.
#pragma once

#include "infer/cuda/kernel.h"
#include "infer/cuda/numbers.h"
#include "infer/cuda/sample.h"

namespace folio::infer::gpu {
namespace {

// A sum of token weights, and a token's rank, in the 64-bit type that CUDA's atomic functions accept.
using Sum = unsigned long long;
using Rank = unsigned long long;

constexpr float kUnits = 0x1.0p44F;  // units in a weight of 1: 2^19 such weights fit in a Sum
constexpr int kIdBits = 19;
constexpr int kRankBits = 32 + kIdBits + 1;  // bits of a logit and an ID, rounded up to an even number
constexpr Rank kEnd = (Rank{1} << kRankBits) - 1;
constexpr float kFloor = -3.402823466e+38F;  // the lowest finite float

__device__ inline bool is_finite(float x) { return (bits_of(x) & 0x7F800000U) != 0x7F800000U; }

// Returns a token's rank: smaller for a larger logit, and among equal logits for a smaller ID.
__device__ inline Rank rank_of(float logit, unsigned id) {
  const uint32_t bits = bits_of(logit + 0.0F);  // turns -0 into 0, so that both have the same rank
  const uint32_t rising = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<Rank>(~rising) << kIdBits) | id;
}
__device__ inline unsigned id_of(Rank rank) { return static_cast<unsigned>(rank) & ((1U << kIdBits) - 1); }
__device__ inline float logit_of(Rank rank) {
  const uint32_t rising = ~static_cast<uint32_t>(rank >> kIdBits);
  return float_of((rising >> 31U) != 0 ? rising & 0x7FFFFFFFU : ~rising);
}

// Returns the penalized logit. It never overflows to +infinity; a token whose logit becomes -infinity is not drawn.
__device__ inline float penalized(float logit, float penalty) {
  if (!(logit > 0.0F)) return logit * penalty;
  return logit / penalty < -kFloor ? logit / penalty : -kFloor;
}

enum class Weight : uint8_t { One, Likelihood, Chance };

// Computes the weights of a row's tokens from their logits.
struct Weights {
  const DrawInput& in;
  float largest;

  // Returns the token's weight in units of 1 / kUnits, or 1 for One. Likelihood: e^(logit - largest). Chance:
  // e^((logit - largest) / temperature), or 0 if min-p excludes the token.
  [[nodiscard]] __device__ Sum operator()(Weight weight, float logit) const {
    if (weight == Weight::One) return 1;
    float x = logit - largest;
    if (weight == Weight::Chance) {
      if (in.min_p > 0.0F && exp_of(x) < in.min_p) return 0;
      x = x / in.temperature;
    }
    return static_cast<Sum>(exp_of(x) * kUnits);
  }
  // Returns the kind of weight whose sum choose() needs first.
  [[nodiscard]] __device__ Weight first() const { return in.top_p < 1.0F ? Weight::Likelihood : Weight::Chance; }
};

// Returns the rank of the drawn token. `tokens` provides sum(weight, last), the sum of the weights of ranks up to
// `last`, and select(weight, last, target), the first rank up to `last` at which the running sum exceeds `target`, or
// kEnd if there is none.
template <typename Tokens>
__device__ Rank choose(const DrawInput& in, Tokens& tokens) {
  Rank last = kEnd;  // last rank that is kept
  if (in.top_k > 0) last = tokens.select(Weight::One, last, in.top_k - 1);
  if (in.top_p < 1.0F) {  // keeps the likeliest tokens until their total probability reaches top_p
    const double share = static_cast<double>(in.top_p) * static_cast<double>(tokens.sum(Weight::Likelihood, last));
    const auto whole = static_cast<Sum>(share);
    last =
        tokens.select(Weight::Likelihood, last, whole > 0 && static_cast<double>(whole) == share ? whole - 1 : whole);
  }
  const Sum total = tokens.sum(Weight::Chance, last);
  const auto drawn = static_cast<Sum>(in.uniform * static_cast<double>(total));
  return tokens.select(Weight::Chance, last, drawn < total ? drawn : total - 1);
}

}  // namespace
}  // namespace folio::infer::gpu
