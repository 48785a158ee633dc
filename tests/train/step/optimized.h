// A model and its optimizer, for tests that draw gradients at random.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "modules/families/parts.h"
#include "tests/train/support.h"
#include "train/step/optimizer.h"

namespace folio::train::test {

inline void draw_gradients(nn::Llama& model) {
  for (torch::Tensor& p : model->parameters()) p.mutable_grad() = torch::randn_like(p);
}

/// Returns true if Muon's or GaLore's own rule applies to the parameter: a matrix of a layer, but not of its experts.
inline bool in_a_block(const std::string& name, const torch::Tensor& p) {
  return p.dim() == 2 && name.starts_with("layers.");
}

struct Optimized {
  explicit Optimized(const TrainConfig& config)
      : model(nn::family_llama(config.model)), optimizer(make_optimizer(*model, config)) {
    for (const auto& [name, tensor] : optimizer->state()) state[name] = tensor;
  }
  /// Copies the values of another model's parameters, or their gradients if `gradients` is true.
  void follow(const Optimized& other, bool gradients) {
    const torch::NoGradGuard no_grad;
    const auto own = model->parameters(), others = other.model->parameters();
    for (size_t i = 0; i < own.size(); ++i) {
      if (gradients) {
        own[i].mutable_grad() = others[i].grad().clone();
      } else {
        own[i].copy_(others[i]);
      }
    }
  }
  nn::Llama model;
  std::unique_ptr<Optimizer> optimizer;
  std::map<std::string, torch::Tensor> state;  ///< the optimizer's own tensors, by name
};

}  // namespace folio::train::test
