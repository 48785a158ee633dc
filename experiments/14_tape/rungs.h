// Two early rungs of the growing model on a tape, a bigram and one attention head, with its rates and first values; and
// a step of gradient descent.
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
  /// Records the loss of a batch; `w` are the parameters as leaves of one tape, in their order.
  std::function<Tensor(const std::vector<Tensor>& w, const data::Batch& batch)> loss;
  double rate;  ///< the learning rate that it is trained with
};

/// A table of logits [V, V]: the row of a character has the scores of those that may follow.
[[nodiscard]] Rung bigram(int64_t vocab_size);

/// Embeddings of width D, one causal attention head, and a linear layer to the logits.
[[nodiscard]] Rung one_head(int64_t vocab_size, int64_t D, uint64_t seed);

/// Puts the parameters on the tape.
[[nodiscard]] std::vector<Tensor> leaves(Tape& tape, const Rung& rung);

/// One step of gradient descent on a tape of its own. Returns the batch's loss, from before the step.
double descend(Rung& rung, const data::Batch& batch);

}  // namespace folio::tape
