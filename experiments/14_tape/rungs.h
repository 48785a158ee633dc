// Two rungs of the growing model on a tape, a bigram and one attention head, with the same rates and initialization,
// and a step of gradient descent.
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
  /// Records the loss of a batch; `w` are the parameters in order, as leaves of one tape.
  std::function<Tensor(const std::vector<Tensor>& w, const data::Batch& batch)> loss;
  double rate;  ///< learning rate
};

/// Returns a table of logits [V, V]: the row of a character holds the scores of its successors.
[[nodiscard]] Rung bigram(int64_t vocab_size);

/// Returns embeddings of width D, one causal attention head, and a linear layer to the logits.
[[nodiscard]] Rung one_head(int64_t vocab_size, int64_t D, uint64_t seed);

/// Records the parameters as leaves of the tape.
[[nodiscard]] std::vector<Tensor> leaves(Tape& tape, const Rung& rung);

/// Takes one step of gradient descent on a new tape. Returns the batch's loss before the step.
double descend(Rung& rung, const data::Batch& batch);

}  // namespace folio::tape
