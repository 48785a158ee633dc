// How the experts of a mixture come to share the tokens. A router that gives one expert more tokens trains it more, and
// then likes it still more; so either an auxiliary loss pulls the scores apart from that, or a selection bias does.
#pragma once

#include <torch/types.h>

#include <vector>

#include "modules/families/mixture.h"
#include "train/parallel/group.h"

namespace folio::train {

using Loads = std::vector<nn::MixtureImpl::Load>;  ///< of each layer with experts

/// What was noted since the last call.
[[nodiscard]] Loads take_loads(std::vector<nn::Mixture>& mixtures);

/// `chosen` and n_rows become the sums of a group of ranks that have rows of their own. Returns the share of this one.
double add_ranks(Loads& loads, parallel::Group& group);

/// E Σ_e f_e P_e over the rows of all layers, where f_e is the share of the rows that take expert e, and P_e the mean
/// of their scores of e: K where all experts are alike, with K for each token. Only P has a gradient. Source: Fedus et
/// al., "Switch Transformers", 2021, equation 4, for K experts as in transformers' load_balancing_loss_func. On several
/// ranks each has the terms of its own rows, a `share` of all: their sum is the loss.
[[nodiscard]] torch::Tensor balance_loss(const Loads& loads, double share = 1.0);

/// Lowers the selection bias of each expert that more than the mean of rows took, by `rate`, and raises those of the
/// others. Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
void move_selection_bias(nn::Mixture& mixture, const torch::Tensor& chosen, double rate);

/// The rows of the expert that most took, over the mean: 1 where all experts have equally many. Of the layer where it
/// is largest.
[[nodiscard]] double largest_load(const Loads& loads);

}  // namespace folio::train
