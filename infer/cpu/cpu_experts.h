// Mixture of experts on a CPU: sorts a step's rows by expert and multiplies each expert's rows together. A step reads
// each matrix of an active expert once, and no matrix of an inactive one. A row's result does not depend on other rows.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/cpu/product_inputs.h"

namespace folio::infer {

/// An assignment: a row that the router sent to an expert, with its routing weight.
struct Assignment {
  size_t row;
  float weight;
};

/// An active expert and its assignments, a segment of CpuExperts::assignments().
struct ExpertRows : Segment {
  size_t expert;
};

class CpuExperts {
 public:
  /// One of the experts' projections, such as the gate. `stride`, an argument of project(), is the row length of `out`.
  struct ExpertMatmul {
    std::span<const Matrix> weights;  ///< a matrix per expert
    const float* biases;              ///< (experts, stride), or null
    float* out;                       ///< (assignments, stride): a row for each element of assignments()
  };

  CpuExperts(core::ThreadPool& pool, const kernels::Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Sorts the assignments by expert. routes (n_rows, n_experts) are routing weights, 0 if an expert is not chosen.
  /// A NaN counts as chosen, so that it reaches the output.
  void begin(std::span<const float> routes, size_t n_rows, size_t n_experts);

  /// Returns the step's assignments, sorted by expert, then by row.
  [[nodiscard]] std::span<const Assignment> assignments() const { return assignments_; }

  /// Computes out = x[row] · weights[expert]ᵀ + bias for every product and assignment. x is (n_rows, k). Rows
  /// of out have `stride` elements, of which a rank writes only its own columns.
  void project(const float* x, std::span<const ExpertMatmul> products, size_t stride);

  /// Adds Σ weight · (x[assignment] · weights[expert]ᵀ + bias) to each row of residual (n_rows, dim), in the order of
  /// the experts. x is (assignments, k), biases (experts, dim) or null.
  void combine(const float* x, std::span<const Matrix> weights, const float* biases, float* residual, size_t dim);

 private:
  void multiply(const Matrix& weight, const float* bias, const InputsView& in, size_t begin, size_t end, float* out,
                size_t stride);
  template <typename Body>
  void for_tiles(size_t n_tiles, size_t k, Body&& body);

  core::ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  size_t n_rows_ = 0;
  std::vector<ExpertRows> experts_;
  std::vector<Assignment> assignments_;
  core::AlignedVector<float> outputs_;  ///< the experts' outputs, (assignments, n_out)
  ProductInputs inputs_{pool_, kernels_};
};

}  // namespace folio::infer
