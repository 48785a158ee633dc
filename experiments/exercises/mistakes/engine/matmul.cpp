// The mistakes, each with the test that must fail first and words of its message:
//     added_to_the_output: WhatStoodInTheOutputIsForgotten: is -93, but
//     first_number_left_out: AllNumbersOfARowCount: begins too late
//     transposed: AnOutputBelongsToARowOfTheWeight: read transposed
//     rows_of_the_weight_too_short: TheWeightNeedNotBeSquare: not at r * n_out
//     always_the_first_row: EveryRowOfTheInputIsMultiplied: not advanced by its row
//     rows_of_the_input_too_short: TheInputsRowsAreAsLongAsTheWeights: begins at row * n_in
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {

void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  // Rows of a wrong length may end outside of an array; % keeps the index inside, so that the results are wrong
  // instead.
  const size_t row_of_x = wrong("always_the_first_row") ? 0 : wrong("rows_of_the_input_too_short") ? n_out : n_in;
  const size_t row_of_weight = wrong("rows_of_the_weight_too_short") ? n_out : n_in;
  const bool transposed = wrong("transposed");
  const size_t first = wrong("first_number_left_out") && n_in > 1 ? 1 : 0;
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t r = 0; r < n_out; ++r) {
      float sum = wrong("added_to_the_output") ? out[row * n_out + r] : 0.0F;
      for (size_t i = first; i < n_in; ++i) {
        const size_t at = transposed ? i * n_out + r : (r * row_of_weight + i) % (n_in * n_out);
        sum += x[(row * row_of_x + i) % (n_rows * n_in)] * weight[at];
      }
      out[row * n_out + r] = sum;
    }
  }
}

}  // namespace folio::exercises
