#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  OneStepMore,
  LossAfterTheStep,
  StepBeforeTheGradient,
  FirstBatchOnly,
  NeverCleared,
  OneRate,
  HalfTheSteps
};

template <Wrong kWrong>
Doubles loop(Trainee& model, const Doubles& rates) {
  using enum Wrong;
  Doubles losses;
  for (size_t step = 0; step < rates.size(); ++step) {
    if (step == 0 || kWrong != FirstBatchOnly) model.take_batch(step);
    const double loss = model.loss();
    if (kWrong != NeverCleared) model.clear_gradients();
    if (kWrong == StepBeforeTheGradient) model.descend(rates[step]);
    model.backward();
    if (kWrong == HalfTheSteps && step > 10 && step % 64 > 0) model.clear_gradients();
    if (kWrong != StepBeforeTheGradient) model.descend(rates[kWrong == OneRate ? rates.size() - 1 : step]);
    losses.push_back(kWrong == LossAfterTheStep ? model.loss() : loss);
  }
  if (kWrong == OneStepMore) losses.push_back(model.loss());
  return losses;
}

const std::vector<Mistake<decltype(train)>> kMistakes{
    {"one_step_more", "TheLossIsThatBeforeTheStep", "each step has one loss", loop<Wrong::OneStepMore>},
    {"loss_after_the_step", "TheLossIsThatBeforeTheStep", "the loss after the step", loop<Wrong::LossAfterTheStep>},
    {"step_before_the_gradient", "AStepGoesAgainstTheGradient", "did not move", loop<Wrong::StepBeforeTheGradient>},
    {"first_batch_only", "EachStepHasItsOwnBatch", "first batch in every step", loop<Wrong::FirstBatchOnly>},
    {"never_cleared", "GradientsAreClearedInEachStep", "backward() adds", loop<Wrong::NeverCleared>},
    {"one_rate", "EachStepHasItsOwnRate", "descend(rates[step])", loop<Wrong::OneRate>},
    {"half_the_steps", "ABigramLearnsItsText", "a call is missing", loop<Wrong::HalfTheSteps>},
};

}  // namespace

Doubles train(Trainee& model, const Doubles& rates) { return chosen(kMistakes, loop<Wrong::None>)(model, rates); }

}  // namespace folio::exercises
