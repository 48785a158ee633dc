// The bigram model and the one-head model of experiments/growing on a tape, with the same learning rates and
// initialization, and a gradient descent step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "experiments/14_tape/tape.h"

namespace folio::tape {

struct Parameter {
  std::string name;
  Shape shape;
  Values value;
};

struct Rung {
  std::string name;
  std::vector<Parameter> parameters;
  /// Records the loss of a batch on a tape. `w` must be the result of leaves(): one leaf for each of `parameters`.
  std::function<Tensor(const std::vector<Tensor>& w, const data::Batch& batch)> loss;
  double rate;  ///< learning rate
};

/// Returns a bigram: a table of logits [V, V] in which a character's row scores the characters that may follow.
[[nodiscard]] Rung bigram(int64_t vocab_size);

/// Returns a model of embeddings of width D, one causal attention head, and a linear layer to the logits.
[[nodiscard]] Rung one_head(int64_t vocab_size, int64_t D, uint64_t seed);

/// Records the model's parameters as leaves of the tape and returns the leaves in the same order.
[[nodiscard]] std::vector<Tensor> leaves(Tape& tape, const Rung& rung);

/// Updates the model's parameters by one gradient descent step, with a new tape. Returns the loss before the step.
double descend(Rung& rung, const data::Batch& batch);

}  // namespace folio::tape
