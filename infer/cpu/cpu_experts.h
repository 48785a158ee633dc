// Which rows of a step take which expert, and what the experts make of them. Rows that take the same expert are
// multiplied together, so a step reads each matrix of an expert once, and no matrix of one that nobody takes. A row's
// numbers are those that it has alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/cpu/matrix.h"
#include "infer/cpu/quantized_buffer.h"

namespace folio::infer {

/// A row that takes an expert.
struct Taken {
  size_t row;
  float weight;
};

/// An expert that rows of the step take: the step's takings [first, first + n).
struct ExpertRows {
  size_t expert;
  size_t first;
  size_t n;
};

class CpuExperts {
 public:
  /// A matrix of each expert, its bias, (experts, stride) or null, and where what comes of it goes, (takings, stride).
  struct Product {
    std::span<const Matrix> weights;
    const float* biases;
    float* out;
  };

  CpuExperts(core::ThreadPool& pool, const kernels::Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Sorts what rows take: routes is (n_rows, n_experts), 0 where one is not taken. A route that is not a number is
  /// taken, so that it is seen.
  void begin(std::span<const float> routes, size_t n_rows, size_t n_experts);

  /// By expert, and of one expert by row.
  [[nodiscard]] std::span<const Taken> taken() const { return taken_; }

  /// Of each product and taking: out = x[row] · weights[expert]ᵀ + bias, from the matrix' first row on. x is (n_rows,
  /// k).
  void project(const float* x, std::span<const Product> products, size_t stride);

  /// residual[row] += Σ weight · (x[taking] · weights[expert]ᵀ + bias) over the row's takings in the order of the
  /// experts. x is (takings, k), biases (experts, dim) or null, residual (n_rows, dim).
  void combine(const float* x, std::span<const Matrix> weights, const float* biases, float* residual, size_t dim);

 private:
  // What the experts multiply: a row for each taking, or one that all of them share. Null: nobody needs it.
  struct AllInputs {
    const float* floats;
    kernels::QuantizedInputs quantized;
    const kernels::BF16* fast;
    size_t k;
    bool shared;

    [[nodiscard]] Inputs of(const ExpertRows& expert) const;
  };

  void multiply(const Matrix& weight, const float* bias, const Inputs& in, size_t begin, size_t end, float* out,
                size_t stride);
  AllInputs inputs_of_rows(const float* x, size_t k, std::span<const Product> products);
  AllInputs inputs_of_takings(const float* x, const Matrix& weight);
  template <typename RowOf>
  const kernels::BF16* to_fast(size_t k, size_t n, RowOf&& row_of);
  template <typename RowsOf>
  kernels::QuantizedInputs quantize(size_t k, bool shared, RowsOf&& rows_of);
  template <typename Body>
  void for_tiles(size_t n_tiles, size_t k, Body&& body);

  core::ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  size_t n_rows_ = 0;
  std::vector<ExpertRows> experts_;
  std::vector<Taken> taken_;
  core::AlignedVector<float> gathered_;  ///< (takings, k)
  std::vector<kernels::BF16> rounded_;   ///< (takings, panel_columns(k))
  core::AlignedVector<float> outputs_;   ///< (takings, n_out)
  std::vector<ExpertRows> pieces_;       ///< takings that are quantized together
  QuantizedBuffer quantized_;            ///< (takings, k)
};

}  // namespace folio::infer
