// Load balancing of experts. Without it, an expert that gets more tokens is trained more and then selected even more
// often. Either an auxiliary loss or a selection bias counteracts this.
#pragma once

#include <torch/types.h>

#include <vector>

#include "modules/families/mixture.h"
#include "train/parallel/group.h"

namespace folio::train {

using Loads = std::vector<nn::MixtureImpl::Load>;  ///< one entry per layer with experts

/// Returns and resets the routing statistics recorded since the last call.
[[nodiscard]] Loads take_loads(std::vector<nn::Mixture>& mixtures);

/// Sums `chosen` and n_rows of each load over the ranks of a group; each rank has routed its own rows. Returns this
/// rank's fraction of all rows. Collective.
double add_ranks(Loads& loads, parallel::Group& group);

/// Returns the auxiliary loss E Σ_e f_e P_e over the rows of all layers. f_e is the fraction of rows routed to expert
/// e, P_e its mean score, which has a gradient. The loss of uniform routing is K, the number of experts per token. If
/// `scores` are those of a fraction `share` of all rows, returns these rows' part of the loss. Source: Fedus et al.,
/// "Switch Transformers", 2021, equation 4, for K experts as in transformers' load_balancing_loss_func.
[[nodiscard]] torch::Tensor balance_loss(const Loads& loads, double share = 1.0);

/// Returns the sum over layers of Σ_e f_e P_e, averaged over the sequences of the last pass. In a sequence, f_e is the
/// fraction of positions where expert e is among the K with the best scores, times E / K, and P_e its mean score, where
/// each position's scores are divided by their sum. The loss of uniform routing is 1 per layer. This loss counteracts
/// imbalance within a sequence, in addition to the bias. Source: DeepSeek-AI, "DeepSeek-V3", 2024, equations 17 to 20.
[[nodiscard]] torch::Tensor sequence_balance_loss(const Loads& loads, int64_t experts_per_token);

/// Lowers the selection bias by `rate` for experts with more rows than the mean, and raises it for those with fewer.
/// `chosen` [E] is the number of rows of each expert. Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
void move_selection_bias(nn::Mixture& mixture, const torch::Tensor& chosen, double rate);

/// Returns the number of rows of the most loaded expert, divided by the mean over experts, for the layer where this
/// ratio is largest. 1 means perfect balance.
[[nodiscard]] double largest_load(const Loads& loads);

}  // namespace folio::train
