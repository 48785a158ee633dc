#include "train/step/balance.h"

#include <torch/utils.h>

#include <algorithm>

namespace folio::train {

Loads take_loads(std::vector<nn::Mixture>& mixtures) {
  Loads loads;
  for (nn::Mixture& mixture : mixtures) loads.push_back(mixture->take_load());
  return loads;
}

torch::Tensor balance_loss(const Loads& loads) {
  std::vector<torch::Tensor> shares, scores;  // each of all layers' equally many rows
  for (const auto& load : loads) {
    scores.push_back(load.mean_scores);
    shares.push_back(load.chosen.to(load.mean_scores.scalar_type()) / load.n_rows);
  }
  const torch::Tensor f_E = torch::stack(shares).mean(0), p_E = torch::stack(scores).mean(0);
  return (f_E * p_E).sum() * f_E.numel();
}

void move_selection_bias(nn::Mixture& mixture, const torch::Tensor& chosen, double rate) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor rows = chosen.to(torch::kDouble);
  torch::Tensor& bias = mixture->selection_bias()->value;
  bias.add_(torch::sign(rows.mean() - rows).to(bias.scalar_type()), rate);
}

double largest_load(const Loads& loads) {
  double largest = 0.0;
  for (const auto& load : loads) {
    const torch::Tensor rows = load.chosen.to(torch::kDouble);
    largest = std::max(largest, (rows.max() / rows.mean()).item<double>());
  }
  return largest;
}

}  // namespace folio::train
