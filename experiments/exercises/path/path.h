// Declares the functions that the reader writes in the first exercises: the parts of training in plain C++, each in its
// own file in this folder. Arrays are row-major: (n, dim) means n rows of dim elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets);

// The average of all positions so far, in four forms, the last of which is attention. x, v and the averages: (T, D),
// scores and weights: (T, T), q and k: (T, K). See averages.cpp.
Floats average_by_loop(const Floats& x, size_t T, size_t D);
Floats average_weights(size_t T);
Floats causal_softmax(const Floats& scores, size_t T);
Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K);

Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D);

/// The training loop's interface to a model.
class Trainee {
 public:
  virtual ~Trainee() = default;
  virtual void take_batch(size_t step) = 0;  ///< selects the batch for the next loss() and backward()
  virtual double loss() = 0;                 ///< forward pass: the batch's loss with the current parameters
  virtual void clear_gradients() = 0;        ///< sets all gradients to 0
  virtual void backward() = 0;               ///< ADDS the gradients of the last loss() to the existing ones
  virtual void descend(double rate) = 0;     ///< moves each parameter against its gradient
};
Doubles train(Trainee& model, const Doubles& rates);

void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db);

struct Schedule {
  double rate, last_rate;  ///< peak and final learning rate
  size_t warmup, steps;    ///< number of warm-up steps, and total number of steps
};
double learning_rate(const Schedule& schedule, size_t step);
void clip(Floats& gradients, float limit);

}  // namespace folio::exercises
