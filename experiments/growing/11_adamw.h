// Rung 11: the model of rung 10 with the usual training recipe of Llamas: AdamW, a learning rate with warm-up and
// cosine decay, and gradient clipping.
// Names: p is a parameter, g its gradient; m and v have the parameter's shape.
#pragma once

#include <numbers>

#include "experiments/growing/10_depth.h"

namespace folio::growing {

struct Recipe {
  double rate = 3e-3, last_rate = 3e-4;
  int64_t warmup = 50;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;
  double decay = 0.1;
  double clip = 1.0;
};

// Returns the learning rate of a step: rises linearly during warm-up, then falls along half a cosine to last_rate.
inline double learning_rate(const Recipe& r, int64_t step, int64_t steps) {
  if (step < r.warmup) return r.rate * static_cast<double>(step + 1) / static_cast<double>(r.warmup);
  const double done = static_cast<double>(step - r.warmup) / static_cast<double>(steps - r.warmup);
  return r.last_rate + (r.rate - r.last_rate) * (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
}

// Scales the gradients so that their global norm, over all parameters, is at most `limit`.
inline void clip(const std::vector<Tensor>& parameters, double limit) {
  double squares = 0.0;
  for (const Tensor& p : parameters) squares += p.grad().square().sum().item<double>();
  const double length = std::sqrt(squares);
  if (length <= limit) return;
  for (const Tensor& p : parameters) p.mutable_grad().mul_(limit / length);
}

struct AdamW {
  Recipe r;
  std::vector<Tensor> parameters, m{}, v{};

  AdamW(Recipe recipe, std::vector<Tensor> its_parameters) : r(recipe), parameters(std::move(its_parameters)) {
    for (const Tensor& p : parameters) m.push_back(torch::zeros_like(p)), v.push_back(torch::zeros_like(p));
  }

  void take_step(int64_t step, double rate) {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor &p = parameters[i], &g = p.grad();
      m[i] = r.beta1 * m[i] + (1 - r.beta1) * g;           // running mean of the gradient
      v[i] = r.beta2 * v[i] + (1 - r.beta2) * g.square();  // running mean of the squared gradient
      // Bias correction: m and v start at 0, so after n steps the weights of the gradients sum to only 1 - beta^n.
      const Tensor mean = m[i] / (1 - std::pow(r.beta1, step + 1));
      const Tensor mean_square = v[i] / (1 - std::pow(r.beta2, step + 1));
      if (p.dim() >= 2) p.mul_(1 - rate * r.decay);  // weight decay, for matrices only
      p.sub_(rate * mean / (mean_square.sqrt() + r.eps));
    }
  }
};

// Trains any model with `recipe`: AdamW, learning rate schedule, gradient clipping. Evaluates every
// s.evaluate_every steps and after the last step.
inline Training train_with_adamw(const Forward& forward, const std::vector<Tensor>& parameters, Text text,
                                 Text validation, const Setting& s, const Recipe& recipe = {}) {
  AdamW adamw(recipe, parameters);
  return train_model(forward, parameters, text, validation, s, [&](int64_t step) {
    clip(parameters, recipe.clip);
    adamw.take_step(step, learning_rate(recipe, step, s.steps));
  });
}

}  // namespace folio::growing
