// Tests sequences packed into one row, with plain and fused modules: loss and gradients equal those of unpacked rows.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/modules/support.h"
#include "tests/train/fused/fused_llama.h"

namespace folio::test {
namespace {

struct PackedCase {
  std::string name;
  core::Family family;
  int64_t window;
  bool fused;
};
void PrintTo(const PackedCase& c, std::ostream* out) { *out << c.name; }

class FusedPacked : public testing::TestWithParam<PackedCase> {};
INSTANTIATE_TEST_SUITE_P(All, FusedPacked,
                         testing::Values(PackedCase{"Plain", core::Family::Llama, 0, false},
                                         PackedCase{"Fused", core::Family::Llama, 0, true},
                                         PackedCase{"PlainWindow", core::Family::Mistral, 5, false},
                                         PackedCase{"FusedWindow", core::Family::Mistral, 5, true}),
                         [](const auto& info) { return info.param.name; });

nn::Llama model_of(const PackedCase& c) {
  const core::ModelConfig config{.family = c.family,
                                 .vocab_size = 11,
                                 .dim = 20,
                                 .n_layers = 2,
                                 .n_heads = 2,
                                 .n_kv_heads = 1,
                                 .head_dim = 10,
                                 .hidden_dim = 28,
                                 .context_length = 60,
                                 .sliding_window = c.window};
  torch::manual_seed(5);
  return in_double(c.fused ? fused_llama(config) : nn::family_llama(config, {.written_out = true}), 0.3);
}

// Lengths of the sequences in two packed rows, below and above the fused kernels' block sizes of 16 and 32.
constexpr int64_t kLength = 60;
const std::vector<std::vector<int64_t>> kRows{{3, 17, 1, 39}, {35, 20, 5}};

torch::Tensor starts_of(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> starts;
  for (const auto& lengths : rows) {
    int64_t start = 0;
    for (const int64_t n : lengths) {
      starts.insert(starts.end(), static_cast<size_t>(n), start);
      start += n;
    }
  }
  return torch::tensor(starts).view({-1, kLength});
}

TEST_P(FusedPacked, PackedLossAndGradientsMatchSingleSequences) {
  auto model = model_of(GetParam());
  const auto [inputs, targets] = window_of({.vocab_size = 11}, 2, kLength);
  const auto packed = model->loss(inputs, targets, starts_of(kRows));
  const auto actual = torch::autograd::grad({packed}, model->parameters());

  auto sum = torch::zeros({}, torch::kDouble);
  for (size_t row = 0; row < kRows.size(); ++row) {
    int64_t start = 0;
    for (const int64_t n : kRows[row]) {
      const auto part = [&](const torch::Tensor& all) {
        return all[static_cast<int64_t>(row)].narrow(0, start, n).unsqueeze(0);
      };
      sum = sum + model->loss(part(inputs), part(targets)) * n;
      start += n;
    }
  }
  const auto alone = sum / (2 * kLength);
  const auto expected = torch::autograd::grad({alone}, model->parameters());
  EXPECT_NEAR(packed.item<double>(), alone.item<double>(), 1e-13);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = (actual[i] - expected[i]).norm().item<double>() / expected[i].norm().item<double>();
    EXPECT_LE(error, 1e-12) << model->named_parameters().keys()[i];
  }
  // If attention crosses the borders between packed sequences, the loss must differ.
  const auto mixed = model->loss(inputs, targets);
  EXPECT_GT(std::abs(mixed.item<double>() - packed.item<double>()), 1e-3);
}

}  // namespace
}  // namespace folio::test
