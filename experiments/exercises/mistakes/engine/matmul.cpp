#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

// Computes out[row * n_out + r] = Σ_i x[x_at(row, i)] weight[weight_at(r, i)], so that a mistake can change an index.
template <typename XAt, typename WeightAt>
void multiply(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out, XAt x_at,
              WeightAt weight_at) {
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t r = 0; r < n_out; ++r) {
      float sum = 0.0F;
      for (size_t i = 0; i < n_in; ++i) sum += x[x_at(row, i)] * weight[weight_at(r, i)];
      out[row * n_out + r] = sum;
    }
  }
}

void added_to_the_output(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t r = 0; r < n_out; ++r) {
      for (size_t i = 0; i < n_in; ++i) out[row * n_out + r] += x[row * n_in + i] * weight[r * n_in + i];
    }
  }
}

void first_number_left_out(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  reference::matmul(x, weight, n_rows, n_in, n_out, out);
  for (size_t row = 0; row < n_rows && n_in > 1; ++row) {
    for (size_t r = 0; r < n_out; ++r) out[row * n_out + r] -= x[row * n_in] * weight[r * n_in];
  }
}

void transposed(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  multiply(
      x, weight, n_rows, n_in, n_out, out, [&](size_t row, size_t i) { return row * n_in + i; },
      [&](size_t r, size_t i) { return i * n_out + r; });
}

void rows_of_the_weight_too_short(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out,
                                  float* out) {
  const size_t size = n_in * n_out;
  multiply(
      x, weight, n_rows, n_in, n_out, out, [&](size_t row, size_t i) { return row * n_in + i; },
      [&](size_t r, size_t i) { return (r * n_out + i) % size; });
}

void always_the_first_row(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  multiply(
      x, weight, n_rows, n_in, n_out, out, [&](size_t, size_t i) { return i; },
      [&](size_t r, size_t i) { return r * n_in + i; });
}

void rows_of_the_input_too_short(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out,
                                 float* out) {
  const size_t size = n_rows * n_in;
  multiply(
      x, weight, n_rows, n_in, n_out, out, [&](size_t row, size_t i) { return (row * n_out + i) % size; },
      [&](size_t r, size_t i) { return r * n_in + i; });
}

const std::vector<Mistake<decltype(matmul)>> kMistakes{
    {"added_to_the_output", "WhatStoodInTheOutputIsForgotten", "is -93, but", added_to_the_output},
    {"first_number_left_out", "AllNumbersOfARowCount", "begins too late", first_number_left_out},
    {"transposed", "AnOutputBelongsToARowOfTheWeight", "read transposed", transposed},
    {"rows_of_the_weight_too_short", "TheWeightNeedNotBeSquare", "not at r * n_out", rows_of_the_weight_too_short},
    {"always_the_first_row", "EveryRowOfTheInputIsMultiplied", "not advanced by its row", always_the_first_row},
    {"rows_of_the_input_too_short", "TheInputsRowsAreAsLongAsTheWeights", "begins at row * n_in",
     rows_of_the_input_too_short},
};

}  // namespace

void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  chosen(kMistakes, reference::matmul)(x, weight, n_rows, n_in, n_out, out);
}

}  // namespace folio::exercises
