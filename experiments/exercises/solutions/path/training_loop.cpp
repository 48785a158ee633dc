#include "experiments/exercises/path/path.h"

namespace folio::exercises {

Doubles train(Trainee& model, const Doubles& rates) {
  Doubles losses;
  for (size_t step = 0; step < rates.size(); ++step) {
    model.take_batch(step);
    losses.push_back(model.loss());
    model.clear_gradients();
    model.backward();
    model.descend(rates[step]);
  }
  return losses;
}

}  // namespace folio::exercises
