// Helpers for tests of outputs: a small model, results of a request that runs alone, and random adapters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "infer/engine/engine.h"
#include "tests/infer/machines.h"
#include "tests/infer/support.h"

namespace folio::infer::test {

/// Returns a LoRA adapter with random matrices A and B of the given rank, for only some of the model's matrices.
inline core::Adapter random_adapter(const core::ModelConfig& config, uint64_t seed, size_t rank) {
  using core::Role;
  constexpr std::array kTargets = {Role::Wq, Role::Wk, Role::Wv, Role::Wo, Role::W1, Role::W3, Role::W2};
  core::Adapter adapter{.path = "random", .parts = {}};
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    const bool is_target = std::ranges::find(kTargets, spec.role) != kTargets.end();
    const uint64_t draw = core::random_bits(seed, adapter.parts.size() + 100);
    if (!is_target || (draw % 4 == 0 && !adapter.parts.empty())) continue;
    const auto n_out = static_cast<size_t>(spec.shape[0]);
    const auto k = static_cast<size_t>(spec.shape[1]);
    adapter.parts.push_back({.role = spec.role,
                             .layer = spec.layer,
                             .rank = rank,
                             .scale = 0.5F,
                             .a = random_floats(rank * k, draw, 1.0 / std::sqrt(static_cast<double>(k))),
                             .b = random_floats(n_out * rank, draw + 1, 1.0)});
  }
  return adapter;
}

class Texts : public ::testing::TestWithParam<MachineKind> {
 protected:
  static core::ModelConfig config() {
    core::ModelConfig c = GetParam().model;  // with tokens 0 to 36
    c.context_length = 700;
    return c;
  }
  [[nodiscard]] static std::vector<int32_t> tokens(size_t n, uint64_t seed = 1) { return random_tokens(n, seed, 37); }
  /// Returns the results of a request that runs alone in an engine. `adapters` have the ids 0, 1, and so on.
  [[nodiscard]] std::vector<GenerateResult> alone(const Request& request,
                                                  std::span<const core::Adapter> adapters = {}) const {
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 6000});
    for (const core::Adapter& adapter : adapters) static_cast<void>(engine.load_adapter(adapter));
    return results_of(engine, request);
  }
  /// Returns the log-probability of `tokens` after the request's prompt, computed by another request.
  [[nodiscard]] double log_prob(const Request& request, std::span<const int32_t> tokens) const {
    Request scored{.prompt = request.prompt};
    scored.prompt.insert(scored.prompt.end(), tokens.begin(), tokens.end());
    std::vector<double> all;
    scored.on_log_probs = [&](std::span<const double> some) { all.insert(all.end(), some.begin(), some.end()); };
    static_cast<void>(alone(scored));
    return std::accumulate(all.end() - std::ssize(tokens), all.end(), 0.0);
  }
  static void expect_same(std::span<const GenerateResult> got, std::span<const GenerateResult> expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].tokens, expected[i].tokens) << "text " << i;
      EXPECT_EQ(got[i].text, expected[i].text) << "text " << i;
      EXPECT_EQ(got[i].score, expected[i].score) << "text " << i;
      EXPECT_EQ(got[i].finish_reason, expected[i].finish_reason) << "text " << i;
    }
  }

  core::StoredModel model_ = random_model(config());
};

}  // namespace folio::infer::test
