// Shapes: N rows, K experts per row, S = N K slots (row, expert), R received slots, D model width, E experts, e ranks.
#include "train/parallel/expert.h"

#include <utility>

#include "train/lora/with_backward.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// Returns the sum of counts_E over the experts of each rank.
std::vector<int64_t> sums_by_rank(const Tensor& counts_E, int64_t n_ranks) {
  const Tensor sums = counts_E.view({n_ranks, -1}).sum(1).cpu();
  return {sums.data_ptr<int64_t>(), sums.data_ptr<int64_t>() + n_ranks};
}

// Returns Group::exchange(). The backward pass sends the gradients back to the rows' ranks.
Tensor exchange_rows(const Tensor& x, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                     Group& group) {
  return with_backward(
      {x}, [&] { return group.exchange(x, sent, received); },
      [&group, sent, received](const Tensor& dy) { return std::vector{group.exchange(dy, received, sent)}; });
}

}  // namespace

ExpertParallelMixtureImpl::ExpertParallelMixtureImpl(const core::ModelConfig& config, Group& experts,
                                                     nn::ExpertProducts products)
    : MixtureImpl(config, std::move(products), nn::Linears(), "ffn", config.n_experts / experts.size()),
      group_(experts) {}

Tensor ExpertParallelMixtureImpl::of_experts(const Tensor& x_ND, const nn::Routes& routes) {
  const int64_t n_ranks = group_.size(), here = config().n_experts / n_ranks;
  const Tensor expert_S = routes.experts.flatten();
  const Tensor order_S = expert_S.argsort(/*stable=*/true, 0);
  const Tensor row_S = order_S.floor_divide(routes.experts.size(1));

  const std::vector<int64_t> even(static_cast<size_t>(n_ranks), here);
  const Tensor sent_E = expert_S.bincount({}, config().n_experts);
  const Tensor received_E = group_.exchange(sent_E, even, even);  // number of rows by sending rank and local expert
  const auto sent = sums_by_rank(sent_E, n_ranks), received = sums_by_rank(received_E, n_ranks);

  const Tensor x_RD = exchange_rows(x_ND.index_select(0, row_S), sent, received, group_);
  const Tensor place_R1 =
      torch::arange(here, received_E.options()).repeat({n_ranks}).repeat_interleave(received_E).unsqueeze(-1);
  const Tensor y_RD = local_expert_sum(x_RD, place_R1, torch::ones({x_RD.size(0), 1}, routes.weights.options()));
  const Tensor y_SD = exchange_rows(y_RD, received, sent, group_);
  const Tensor weight_S = routes.weights.flatten().index_select(0, order_S);
  return torch::zeros_like(x_ND).index_add(0, row_S, y_SD * weight_S.unsqueeze(-1));
}

}  // namespace folio::train::parallel
