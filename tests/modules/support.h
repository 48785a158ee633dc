// Helpers for the modules' tests: comparison of tensors, random tokens, random weights in double.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <string>
#include <vector>

#include "core/model_config.h"
#include "tests/core/support.h"

namespace folio::test {

using core::test::expect_error;

inline constexpr double kEps = std::numeric_limits<double>::epsilon();

/// Expects tensors of equal shape that differ by at most `tolerance` in any element, without NaNs. `why` explains the
/// usual cause of a difference.
inline void expect_close(const torch::Tensor& actual, const torch::Tensor& expected, double tolerance,
                         const std::string& why = "") {
  if (actual.sizes() != expected.sizes()) {
    ADD_FAILURE() << "The shape is " << actual.sizes() << ", but has to be " << expected.sizes() << ".\n" << why;
    return;
  }
  const torch::Tensor wrong_N = ((actual - expected).abs() <= tolerance).logical_not().flatten();
  if (!wrong_N.any().item<bool>()) return;
  const auto first = wrong_N.to(torch::kByte).argmax().item<int64_t>();
  const auto shown = [first](const torch::Tensor& x, int digits) {
    return fmt::format("{:.{}g}", x.flatten()[first].item<double>(), digits);
  };
  const int digits = shown(actual, 6) == shown(expected, 6) ? 17 : 6;
  ADD_FAILURE() << "Number " << first << " is " << shown(actual, digits) << ", but has to be "
                << shown(expected, digits) << ".\n"
                << why;
}

/// Expects tensors of equal shape and exactly equal values. `why` explains the usual cause of a difference.
inline void expect_equal(const torch::Tensor& actual, const torch::Tensor& expected, const std::string& why = "") {
  expect_close(actual, expected, 0.0, why);
}

/// Returns the largest magnitude in a tensor, to scale a tolerance.
inline double largest(const torch::Tensor& x) { return x.abs().max().item<double>(); }

/// Returns a tensor of standard normal values in double.
inline torch::Tensor randn(std::vector<int64_t> shape) { return torch::randn(shape, torch::kDouble); }

/// Rows of tokens, each with the next one as its target: [rows, length].
struct Window {
  torch::Tensor inputs, targets;
};
inline Window window_of(const core::ModelConfig& config, int64_t rows, int64_t length) {
  torch::manual_seed(6);
  const auto tokens = torch::randint(config.vocab_size, {rows, length + 1}, torch::kLong);
  return {tokens.narrow(1, 0, length), tokens.narrow(1, 1, length)};
}

/// Returns `module` in double with every parameter redrawn from N(0, scale²), to break symmetries of the initial
/// weights.
template <typename Holder>
Holder in_double(Holder module, double scale = 1.0) {
  module->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module->parameters()) parameter.normal_(0.0, scale);
  return module;
}

/// Returns the leaves of a gradient check: the input and all parameters of a module.
inline std::vector<torch::Tensor> leaves(const torch::Tensor& x, const torch::nn::Module& module) {
  auto all = module.parameters();
  all.push_back(x);
  return all;
}

}  // namespace folio::test
