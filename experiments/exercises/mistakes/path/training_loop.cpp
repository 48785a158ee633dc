// The mistakes, each with the test that must fail first and words of its message:
//     one_step_more: TheLossIsThatBeforeTheStep: each step has one loss
//     loss_after_the_step: TheLossIsThatBeforeTheStep: the loss after the step
//     step_before_the_gradient: AStepGoesAgainstTheGradient: did not move
//     first_batch_only: EachStepHasItsOwnBatch: first batch in every step
//     never_cleared: GradientsAreClearedInEachStep: backward() adds
//     one_rate: EachStepHasItsOwnRate: descend(rates[step])
//     half_the_steps: ABigramLearnsItsText: a call is missing
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

Doubles train(Trainee& model, const Doubles& rates) {
  Doubles losses;
  for (size_t step = 0; step < rates.size(); ++step) {
    if (step == 0 || !wrong("first_batch_only")) model.take_batch(step);
    const double loss = model.loss();
    if (!wrong("never_cleared")) model.clear_gradients();
    if (wrong("step_before_the_gradient")) model.descend(rates[step]);
    model.backward();
    if (wrong("half_the_steps") && step > 10 && step % 64 > 0) model.clear_gradients();
    if (!wrong("step_before_the_gradient")) model.descend(rates[wrong("one_rate") ? rates.size() - 1 : step]);
    losses.push_back(wrong("loss_after_the_step") ? model.loss() : loss);
  }
  if (wrong("one_step_more")) losses.push_back(model.loss());
  return losses;
}

}  // namespace folio::exercises
