// Tests which parameters AdamW decays. tests/apps/peer_test.py compares its steps with PyTorch.
#include "train/step/adamw.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <map>

#include "tests/train/support.h"

namespace folio::train {
namespace {

// A model with an embedding, a matrix and a vector, to which different rules for weight decay apply.
struct KindsImpl : torch::nn::Module {
  KindsImpl() {
    tok_embeddings = register_module("tok_embeddings", torch::nn::Embedding(5, 6));
    wq = register_module("wq", torch::nn::Linear(torch::nn::LinearOptions(6, 7).bias(false)));
    norm = register_parameter("norm", torch::randn({6}));
  }
  torch::nn::Embedding tok_embeddings{nullptr};
  torch::nn::Linear wq{nullptr};
  torch::Tensor norm;
};
TORCH_MODULE(Kinds);

// With gradients of 0, a step only decays weights: each is multiplied by 1 - lr * decay.
void expect_decay(const TrainConfig& config, const std::map<std::string, double>& decay_of) {
  Kinds model;
  AdamW optimizer(*model, config);
  std::map<std::string, torch::Tensor> before;
  for (auto& p : model->named_parameters()) {
    before[p.key()] = p->detach().clone();
    p->mutable_grad() = torch::zeros_like(*p);
  }
  optimizer.step(0.5);
  for (const auto& p : model->named_parameters()) {
    EXPECT_TRUE(torch::allclose(*p, before[p.key()] * (1.0 - 0.5 * decay_of.at(p.key())), 1e-6, 0.0)) << p.key();
  }
}

TEST(AdamW, DecaysTheSelectedParameters) {
  TrainConfig c;
  c.weight_decay = 0.3;
  expect_decay(c, {{"tok_embeddings.weight", 0.3}, {"wq.weight", 0.3}, {"norm", 0.0}});
  c.decay_embeddings = false;
  c.decay_norms = true;
  expect_decay(c, {{"tok_embeddings.weight", 0.0}, {"wq.weight", 0.3}, {"norm", 0.3}});
}

}  // namespace
}  // namespace folio::train
