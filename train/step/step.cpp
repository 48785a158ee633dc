#include "train/step/step.h"

#include <ATen/record_function.h>

#include <cmath>

#include "core/error.h"
#include "train/parallel/autocast.h"
#include "train/step/balance.h"
#include "train/step/schedule.h"

namespace folio::train {

using parallel::Axis;
using parallel::Microbatch;
using torch::Tensor;

namespace {

void require_finite(double value, const char* what, int64_t step) {
  if (std::isfinite(value)) return;
  throw Diverged(fmt::format("the {} is {} at step {}; lower --lr or clip gradients with --clip", what, std::abs(value),
                             step + 1));
}

}  // namespace

StepLoss forward_backward(parallel::RankModel& model, const TrainConfig& c, const std::vector<data::Batch>& batches,
                          std::vector<Tensor>& chosen) {
  parallel::World& world = model.world();
  std::vector<Microbatch> parts = model.cut(batches);
  const auto balance = [&]() -> Tensor {
    Loads loads = take_loads(model.mixtures());
    const double share = add_ranks(loads, world.along({Axis::Data, Axis::Expert, Axis::Context, Axis::Tensor}));
    for (size_t i = 0; i < loads.size(); ++i)
      chosen[i] = chosen[i].defined() ? chosen[i] + loads[i].chosen : loads[i].chosen;
    const auto n_parts = static_cast<double>(parts.size());
    Tensor loss;
    if (!loads.empty() && c.balance == Balance::Loss && c.balance_rate > 0.0) {
      loss = balance_loss(loads, share) * (c.balance_rate / n_parts);
    }
    if (!loads.empty() && c.balance_loss > 0.0) {
      const Tensor more = sequence_balance_loss(loads, c.model.experts_per_token) * (c.balance_loss * share / n_parts);
      loss = loss.defined() ? loss + more : more;
    }
    return loss;
  };
  const auto forward = [&](Microbatch& part, int64_t chunk, const Tensor& x) {
    const parallel::Autocast autocast(c.dtype == Precision::Bf16, part.tokens.inputs_BT.device().type(), true);
    return model.forward(part, chunk, x);
  };

  model.zero_grad();
  static_cast<void>(take_loads(model.mixtures()));  // discards what evaluations counted
  chosen.assign(model.mixtures().size(), {});
  if (model.has_pipeline()) {
    model.run_pipeline(parts, forward);
    static_cast<void>(balance());
  } else {
    for (Microbatch& part : parts) {
      Tensor loss = forward(part, 0, {});
      if (const Tensor more = balance(); more.defined()) loss = loss + more;
      if (&part == &parts.back()) model.zero().before_last_backward();
      loss.backward();
    }
  }
  StepLoss losses{.loss = world.sum(loss_of(parts))};
  if (c.model.n_tokens_ahead > 0) losses.mtp_loss = world.sum(loss_of(parts, &Microbatch::ahead_loss));
  return losses;
}

StepResult train_step(parallel::RankModel& model, Optimizer& optimizer, const TrainConfig& c, int64_t number,
                      const std::vector<data::Batch>& batches, const std::function<void()>& on_gradients) {
  StepResult result{};
  std::vector<Tensor> chosen;  // per mixture: the number of rows routed to each expert
  parallel::naming_lost_ranks([&] {
    static_cast<StepLoss&>(result) = forward_backward(model, c, batches, chosen);
    model.zero().finish();
  });
  require_finite(result.loss, "loss", number);
  RECORD_FUNCTION("folio::update", {});  // attributes time to the update (profile.h)
  result.grad_norm = model.zero().gradient_norm();
  require_finite(result.grad_norm, "gradient norm", number);
  if (on_gradients) on_gradients();
  // Same coefficient as in clip_grad_norm_; the optimizer applies it to the gradients.
  const double clip_coef = c.clip > 0.0 && result.grad_norm > c.clip ? c.clip / (result.grad_norm + 1e-6) : 1.0;
  result.lr = learning_rate(c, number);
  optimizer.step(result.lr, clip_coef);
  if (c.balance == Balance::Bias && c.balance_rate > 0.0) {
    for (size_t i = 0; i < chosen.size(); ++i) move_selection_bias(model.mixtures()[i], chosen[i], c.balance_rate);
  }
  model.zero().share();
  return result;
}

}  // namespace folio::train
