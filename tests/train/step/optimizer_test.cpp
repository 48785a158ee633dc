// Tests gradient scaling and frozen parameters for all optimizers. For Muon and GaLore, also tests training and the
// parameters that AdamW updates.
#include "train/step/optimizer.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tests/train/step/optimized.h"

namespace folio::train {
void PrintTo(OptimizerKind kind, std::ostream* out) { *out << name_of(kind); }
namespace {

using test::in_a_block;
using test::Optimized;

class Optimizers : public testing::TestWithParam<OptimizerKind> {
 protected:
  Optimizers() {
    config_.optimizer = GetParam();
    config_.rank = 20;  // reduced to 16 for matrices with 16 rows
    config_.galore_every = 10;
    config_.model.vocab_size = 9;
  }
  TrainConfig config_ = test::small_config();
};
class MatrixOptimizers : public Optimizers {};

INSTANTIATE_TEST_SUITE_P(All, Optimizers,
                         testing::Values(OptimizerKind::AdamW, OptimizerKind::Muon, OptimizerKind::GaLore),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(All, MatrixOptimizers, testing::Values(OptimizerKind::Muon, OptimizerKind::GaLore),
                         testing::PrintToStringParamName());

TEST_P(Optimizers, GradientScaleMatchesScaledGradients) {
  Optimized scaled(config_), product(config_);
  product.follow(scaled, false);
  for (const double scale : {1.0, 0.25}) {  // two steps, since Muon's first one doesn't depend on the scale
    test::draw_gradients(scaled.model);
    product.follow(scaled, true);
    for (torch::Tensor& p : product.model->parameters()) p.mutable_grad().mul_(scale);
    scaled.optimizer->step(0.01, scale);
    product.optimizer->step(0.01, 1.0);
  }
  for (const auto& [name, tensor] : scaled.state) EXPECT_TRUE(torch::equal(tensor, product.state[name])) << name;
  EXPECT_TRUE(test::same_bits(test::copies(scaled.model), test::copies(product.model)));
  // The scale also applies to the stored gradients, since the trainer reports clipped gradients.
  for (size_t i = 0; i < scaled.model->parameters().size(); ++i)
    EXPECT_TRUE(torch::equal(scaled.model->parameters()[i].grad(), product.model->parameters()[i].grad())) << i;
}

TEST_P(Optimizers, UpdateOnlyTrainableParameters) {
  for (const bool blocks : {true, false}) {  // train only the layers' matrices, then only all other parameters
    nn::Llama model(config_.model);
    for (auto& p : model->named_parameters()) p->set_requires_grad(in_a_block(p.key(), *p) == blocks);
    const auto optimizer = make_optimizer(*model, config_);
    for (const auto& state : optimizer->state())
      EXPECT_EQ(state.name.find(".layers.") != std::string::npos && !state.name.ends_with("norm.weight"), blocks);
    const auto before = test::copies(model);
    test::draw_gradients(model);
    std::vector<uint32_t> versions;  // must change, since fused modules cache values derived from weights
    for (const torch::Tensor& p : model->parameters()) versions.push_back(p._version());
    optimizer->step(0.1, 0.5);
    const auto parameters = model->named_parameters();
    for (size_t i = 0; i < before.size(); ++i) {
      const bool trained = in_a_block(parameters[i].key(), *parameters[i]) == blocks;
      EXPECT_EQ(torch::equal(*parameters[i], before[i]), !trained) << parameters[i].key();
      EXPECT_EQ(parameters[i]->_version() > versions[i], trained) << parameters[i].key();
    }
  }
}

TEST_P(MatrixOptimizers, UseAdamWForEmbeddingsHeadAndNorms) {
  Optimized it(config_);
  config_.optimizer = OptimizerKind::AdamW;
  Optimized other(config_);
  other.follow(it, false);
  for (int step = 0; step < 5; ++step) {
    test::draw_gradients(it.model);
    other.follow(it, true);
    it.optimizer->step(0.01, 0.5);
    other.optimizer->step(0.01, 0.5);
  }
  const auto others = other.model->named_parameters();
  for (const auto& p : it.model->named_parameters())
    EXPECT_EQ(torch::equal(*p, others[p.key()]), !in_a_block(p.key(), *p)) << p.key();
}

}  // namespace
}  // namespace folio::train
