#include "train/step/adamw.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <map>

#include "tests/train/support.h"

namespace folio::train {
namespace {

// A model with one parameter of each kind that the groups of weight decay distinguish.
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

TrainConfig optimizer_config() {
  TrainConfig c;
  c.beta1 = 0.8;
  c.beta2 = 0.97;
  c.adam_eps = 1e-4;
  c.weight_decay = 0.3;
  return c;
}

// AdamW in double (Loshchilov & Hutter 2019, algorithm 2): theta -= lr (m^ / (sqrt(v^) + eps) + decay theta).
struct PlainAdamW {
  double beta1, beta2, eps, decay;
  std::vector<double> theta, m, v;
  int64_t t = 0;

  void step(const std::vector<double>& g, double lr) {
    ++t;
    for (size_t i = 0; i < theta.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(beta1, static_cast<double>(t)));
      const double v_hat = v[i] / (1 - std::pow(beta2, static_cast<double>(t)));
      theta[i] -= lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * theta[i]);
    }
  }
};

std::vector<double> numbers(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kDouble).flatten().contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

void expect_as_the_formula(const TrainConfig& config, const std::map<std::string, double>& decay_of) {
  Kinds model;
  AdamW optimizer(*model, config);
  std::map<std::string, PlainAdamW> plain;
  for (const auto& p : model->named_parameters()) {
    const auto theta = numbers(p.value());
    plain[p.key()] = {config.beta1,
                      config.beta2,
                      config.adam_eps,
                      decay_of.at(p.key()),
                      theta,
                      std::vector<double>(theta.size()),
                      std::vector<double>(theta.size())};
  }
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    const double lr = 0.02 / (1 + step);
    for (auto& p : model->named_parameters()) {
      p->mutable_grad() = torch::randn_like(*p);
      plain[p.key()].step(numbers(p->grad()), lr);
    }
    optimizer.step(lr);
  }
  EXPECT_EQ(optimizer.steps(), kSteps);
  // Each step rounds theta (below 4) and its update to float32, an error of at most 4 eps, which isn't amplified.
  const double tolerance = kSteps * 4 * static_cast<double>(std::numeric_limits<float>::epsilon());
  for (const auto& p : model->named_parameters()) {
    const auto actual = numbers(p.value());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], plain[p.key()].theta[i], tolerance) << p.key() << i;
  }
  for (const auto& [name, tensor] : optimizer.state()) {
    const PlainAdamW& expected = plain[name.substr(name.find('.') + 1)];
    const auto& moments = name.starts_with("exp_avg_sq.") ? expected.v : expected.m;
    const auto actual = numbers(tensor);
    for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], moments[i], tolerance) << name;
  }
}

TEST(AdamW, FollowsTheFormulaInDouble) {
  expect_as_the_formula(optimizer_config(), {{"tok_embeddings.weight", 0.3}, {"wq.weight", 0.3}, {"norm", 0.0}});
}

TEST(AdamW, DecayOfEmbeddingsIsOptional) {
  TrainConfig c = optimizer_config();
  c.decay_embeddings = false;
  expect_as_the_formula(c, {{"tok_embeddings.weight", 0.0}, {"wq.weight", 0.3}, {"norm", 0.0}});
}

TEST(AdamW, DecayOfNormsIsOptional) {
  TrainConfig c = optimizer_config();
  c.decay_norms = true;
  expect_as_the_formula(c, {{"tok_embeddings.weight", 0.3}, {"wq.weight", 0.3}, {"norm", 0.3}});
}

}  // namespace
}  // namespace folio::train
