// Compares ten training steps with an independent implementation in PyTorch, golden_losses.py.
#include <gtest/gtest.h>

#include <cmath>

#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "tests/train/support.h"

namespace folio::train {
namespace {

constexpr double kLosses[] = {3.229019143, 2.989273162, 2.758136655, 2.612678701, 2.564112923,
                              2.399126319, 2.318617031, 2.175311817, 2.192950190, 2.058268427};
constexpr double kNorms[] = {1.879591524, 1.952426146, 1.720072064, 1.142157618, 1.325287447,
                             1.526492358, 1.347083459, 1.368639755, 1.161123696, 1.021281144};

// PyTorch's losses in float32 differ from those in float64 by 4e-7. A wrong eps, theta, decay group, clipping, bias
// correction or schedule changes a loss by more than 1e-4 within ten steps.
constexpr double kGoldenTolerance = 1e-5;

TrainConfig golden_config(bool fused = true) {
  TrainConfig c = test::small_config();
  c.fused = fused;
  c.dropout = 0.0;  // golden_losses.py would draw other dropout masks
  c.decay_embeddings = false;
  return c;
}

// Returns the initial weights of golden_losses.py: multiples of 2^-18, plus 1 for norms.
core::Weights first_weights(const core::ModelConfig& config) {
  core::Weights weights{.config = config, .tensors = {}};
  for (const auto& spec : core::tensor_manifest(config)) {
    const uint64_t seed = 2024 + weights.tensors.size();
    std::vector<float> tensor(static_cast<size_t>(spec.elements()));
    for (size_t i = 0; i < tensor.size(); ++i) {
      const auto bits = static_cast<float>(core::random_bits(seed, i) >> 48U);
      tensor[i] = (bits - 32768.0F) / 262144.0F + (spec.shape.size() == 1 ? 1.0F : 0.0F);
    }
    weights.tensors.push_back(std::move(tensor));
  }
  return weights;
}

void expect_golden_losses(const TrainConfig& config) {
  const test::TempDir directory;
  test::Small small(config);
  const auto end_of_text = small.dataset.tokenizer().end_of_text();
  const core::Weights weights = first_weights(small.trainer.config().model);
  core::write_hf_model(directory.path(), weights.config, weights.views(), end_of_text, end_of_text);
  Trainer trainer(config, small.dataset, directory.path());
  for (size_t step = 0; step < std::size(kLosses); ++step) {
    const StepResult result = trainer.step();
    EXPECT_NEAR(result.loss, kLosses[step], kGoldenTolerance) << "step " << step;
    EXPECT_NEAR(result.grad_norm, kNorms[step], 10 * kGoldenTolerance) << "step " << step;
  }
}

TEST(Trainer, TenGoldenLosses) { expect_golden_losses(golden_config()); }
TEST(Trainer, TenGoldenLossesOfThePlainForm) { expect_golden_losses(golden_config(false)); }

TEST(Trainer, GoldenLossesRequireTheGoldenWeights) {
  test::Small small(golden_config());
  EXPECT_GT(std::abs(small.trainer.step().loss - kLosses[0]), 100 * kGoldenTolerance);
}

}  // namespace
}  // namespace folio::train
