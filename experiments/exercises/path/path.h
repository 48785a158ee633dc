// The functions that the exercises of the path ask for: what training is made of, in plain C++. Each is written in a
// file of its own beside this one. Arrays lie row by row: (n, dim) is n times dim numbers, one row after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets);

// averages.cpp: the same average in four forms. The last is attention.
Floats average_by_loop(const Floats& x, size_t T, size_t D);
Floats average_weights(size_t T);
Floats causal_softmax(const Floats& scores, size_t T);
Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K);

Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D);

/// A model in training, as the loop sees it.
class Trainee {
 public:
  virtual ~Trainee() = default;
  virtual void take_batch(size_t step) = 0;  ///< the batch of this step is the one from now on
  virtual double loss() = 0;                 ///< forward: of the batch, with the parameters as they are
  virtual void clear_gradients() = 0;        ///< to 0
  virtual void backward() = 0;               ///< ADDS the gradients of the last loss() to those that are there
  virtual void descend(double rate) = 0;     ///< moves each parameter against its gradient
};
Doubles train(Trainee& model, const Doubles& rates);

void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db);

struct Schedule {
  double rate, last_rate;  ///< the highest, and the one at the end
  size_t warmup, steps;    ///< steps until the highest is reached, and all steps
};
double learning_rate(const Schedule& schedule, size_t step);
void clip(Floats& gradients, float limit);

}  // namespace folio::exercises
