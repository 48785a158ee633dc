// Sizes and weights of latent attention, and RoPE, which the exercise `absorbed` uses. There is nothing to write in
// this file. Arrays are row-major.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace folio::exercises {

struct LatentAttention {
  size_t n_heads;
  size_t rank;              ///< elements of a latent
  size_t nope;              ///< number of elements without RoPE in a head's query or key; they come first
  size_t rope;              ///< number of elements with RoPE in a head's query or key; they come last
  size_t v_dim;             ///< elements of a head's value
  std::vector<float> wk{};  ///< (n_heads, nope, rank): a head's W_k maps a latent to the head's key without RoPE
  std::vector<float> wv{};  ///< (n_heads, v_dim, rank): a head's W_v maps a latent to the head's value
};

/// Returns x after RoPE at a position: each pair (2i, 2i + 1) is rotated by position * 10000^(-2i / x.size()).
inline std::vector<float> rotated(std::vector<float> x, size_t position) {
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const double turn = std::pow(1e4, -static_cast<double>(i) / static_cast<double>(x.size()));
    const double angle = static_cast<double>(position) * turn, a = x[i], b = x[i + 1];
    x[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    x[i + 1] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
  }
  return x;
}

}  // namespace folio::exercises
