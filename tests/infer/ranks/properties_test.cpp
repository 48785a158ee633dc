// Tests ranks on any transport, for every type, family and shape: logits and activations (seen by an observer) equal
// those of one CPU, matrices aren't duplicated, and exchanged_bytes() is the number of bytes sent.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "infer/forward/runner.h"
#include "tests/infer/ranks/kinds.h"

namespace folio::infer::test {
namespace {

using Observed = std::map<std::string, std::vector<float>>;

Observed observed_by(Runner& runner, std::span<const int32_t> text) {
  Observed all;
  const auto sequence = runner.cache().add_sequence();
  run(runner, rows_of(sequence, text), [&](const std::string& name, std::span<const float> v, size_t) {
    all[name].assign(v.begin(), v.end());
    return false;
  });
  runner.cache().release(sequence);
  return all;
}

class RanksAgainstOneProcess : public ::testing::TestWithParam<std::tuple<RankKind, Shape>> {};

INSTANTIATE_TEST_SUITE_P(All, RanksAgainstOneProcess,
                         ::testing::Combine(::testing::ValuesIn(rank_kinds()), ::testing::ValuesIn(all_shapes())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

TEST_P(RanksAgainstOneProcess, MatchOneCpuAndTheTrafficFormula) {
  const auto& [kind, shape] = GetParam();
  const core::StoredModel model = random_model_of(shape);
  const auto text = random_tokens(kLength, 1, model.config.vocab_size);
  uint64_t vectors = 0;  // bytes of the model's vectors, which every rank copies
  for (const core::TensorSpec& spec : core::tensor_manifest(model.config)) {
    if (!spec.is_matrix()) vectors += static_cast<uint64_t>(spec.elements()) * sizeof(float);
  }
  const bool in_blocks = kind.in_eight_bits && core::info(shape.type).block_elements > 1;
  const size_t most = most_ranks(model.config);
  for (const CacheType type : kind.cache_types) {
    const CacheOptions options{.type = type};
    Cpu one({.n_threads = 1});
    Runner alone(model, one, options);
    const auto logits = logits_of(alone, text);
    const Observed observed = observed_by(alone, text);
    const uint64_t weights = alone.load_report().weight_bytes;
    for (size_t n = std::min(kind.least, most); n <= most; ++n) {
      SCOPED_TRACE(n);
      const uint64_t given = kind.run(n, model, options, [&](Runner& runner) {
        EXPECT_TRUE(same_bits(logits_of(runner, text), logits));
        const Observed got = observed_by(runner, text);
        ASSERT_EQ(got.size(), observed.size());
        for (const auto& [name, values] : observed) EXPECT_TRUE(same_bits(got.at(name), values)) << name;
        EXPECT_EQ(runner.load_report().weight_bytes, weights + (n - 1) * vectors);
      });
      const auto of_step = [&](size_t rows, size_t logit_rows) {
        return exchanged_bytes(model.config, n, rows, logit_rows, in_blocks);
      };
      EXPECT_EQ(given, of_step(kLength - 3, kLength - 3) + 3 * of_step(1, 1) + of_step(kFirst, 0) +
                           of_step(kLength - kFirst, 1) + exchanged_bytes(model.config, n, kLength, kLength));
    }
  }
}

}  // namespace
}  // namespace folio::infer::test
