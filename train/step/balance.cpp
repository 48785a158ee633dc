#include "train/step/balance.h"

#include <torch/utils.h>

#include <algorithm>

namespace folio::train {

Loads take_loads(std::vector<nn::Mixture>& mixtures) {
  Loads loads;
  for (nn::Mixture& mixture : mixtures) loads.push_back(mixture->take_load());
  return loads;
}

double add_ranks(Loads& loads, parallel::Group& group) {
  if (group.size() == 1 || loads.empty()) return 1.0;
  std::vector<torch::Tensor> counts;  // [layers + 1, E]: one vector per layer, and one filled with the number of rows
  for (const auto& load : loads) counts.push_back(load.chosen);
  const int64_t own = loads.front().n_rows;
  counts.push_back(torch::full_like(counts.front(), own));
  const torch::Tensor sums = torch::stack(counts);
  group.sum(sums);
  const auto all = sums[-1][0].item<int64_t>();
  for (size_t i = 0; i < loads.size(); ++i) {
    loads[i].chosen = sums[static_cast<int64_t>(i)];
    loads[i].n_rows = all;
  }
  return static_cast<double>(own) / static_cast<double>(all);
}

torch::Tensor balance_loss(const Loads& loads, double share) {
  std::vector<torch::Tensor> shares, scores;  // per layer; all layers have the same number of rows
  for (const auto& load : loads) {
    scores.push_back(load.scores.flatten(0, 1).mean(0));
    shares.push_back(load.chosen.to(load.scores.scalar_type()) / load.n_rows);
  }
  const torch::Tensor f_E = torch::stack(shares).mean(0), p_E = torch::stack(scores).mean(0);
  return (f_E * p_E).sum() * (static_cast<double>(f_E.numel()) * share);
}

torch::Tensor sequence_balance_loss(const Loads& loads, int64_t experts_per_token) {
  torch::Tensor sum;
  for (const auto& load : loads) {
    const torch::Tensor& s_BTE = load.scores;
    const auto chosen = std::get<1>(s_BTE.detach().topk(experts_per_token, -1));
    // Equations 18 (f, here without the factor E / K), 19 and 20 (P) of "DeepSeek-V3".
    const torch::Tensor f_BE = torch::zeros_like(s_BTE).scatter(-1, chosen, 1.0).mean(1);
    const torch::Tensor p_BE = (s_BTE / s_BTE.sum(-1, /*keepdim=*/true)).mean(1);
    const double factor = static_cast<double>(s_BTE.size(-1)) / static_cast<double>(experts_per_token);
    const torch::Tensor loss = (f_BE * p_BE).sum(-1).mean() * factor;  // eq. 17 of "DeepSeek-V3", mean over sequences
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

void move_selection_bias(nn::Mixture& mixture, const torch::Tensor& chosen, double rate) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor rows = chosen.to(torch::kDouble);
  torch::Tensor& bias = mixture->selection_bias();
  bias.add_(torch::sign(rows.mean() - rows).to(bias.scalar_type()), rate);
}

double largest_load(const Loads& loads) {
  double largest = 0.0;
  for (const auto& load : loads) {
    if (!load.chosen.defined()) continue;  // evaluations do not run the MTP module
    const torch::Tensor rows = load.chosen.to(torch::kDouble);
    largest = std::max(largest, (rows.max() / rows.mean()).item<double>());
  }
  return largest;
}

}  // namespace folio::train
