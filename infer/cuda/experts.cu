// Kernels around the experts' products: they pack inputs by group, add biases, combine outputs and gate rows. All are
// bound by memory: they load or store a few bytes per element, with about as many operations.
#include "infer/cuda/activation.h"
#include "infer/cuda/experts.h"
#include "infer/cuda/inputs.h"

namespace folio::infer::gpu {
namespace {

// Returns the assignment whose input is packed in row `slot`, or -1 if that row is unused.
__device__ int32_t assignment_of(const Grouped& grouped, uint32_t slot) {
  const ExpertGroup group = grouped.groups[slot / grouped.size];
  const uint32_t i = slot % grouped.size;
  return i < group.n ? grouped.assignments[group.first + i] : -1;
}

// Packs the input row of each assignment. Thread blocks of unused rows of `to` do nothing.
template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void pack_assigned_rows(const float* x, uint32_t of_row,
                                                                          Grouped grouped, PackedInputs to) {
  const int32_t assignment = assignment_of(grouped, blockIdx.x);
  if (assignment < 0) return;
  x += static_cast<size_t>(assignment) / of_row * to.k;
  pack_part<kKind>(to, blockIdx.x, [&](size_t i) { return x[i]; });
}

// Sets gate = gated(gate, up) for each assignment's row and packs it. Thread blocks of unused rows of `to` do nothing.
template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void activate_assigned_rows(Activation activation, float* gate,
                                                                              const float* up, Grouped grouped,
                                                                              PackedInputs to) {
  const int32_t assignment = assignment_of(grouped, blockIdx.x);
  if (assignment < 0) return;
  gate += static_cast<size_t>(assignment) * to.k;
  up += static_cast<size_t>(assignment) * to.k;
  gate_and_pack<kKind, 8>(activation, gate, up, to, blockIdx.x);
}

__global__ __launch_bounds__(kBlockThreads) void add_bias_of_expert(float* x, const float* biases, Assignments assigned,
                                                                    size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.y) * kBlockThreads + threadIdx.x;
  const int32_t expert = assigned.experts[blockIdx.x];
  if (i < n && expert >= 0) x[blockIdx.x * n + i] += biases[static_cast<size_t>(expert) * n + i];
}

// Each thread computes one element of a row: it adds that element of the row's n_chosen expert outputs, in order.
__global__ __launch_bounds__(kBlockThreads) void combine_rows(float* x, const float* outs, const float* biases,
                                                              Assignments assigned, uint32_t n_chosen, size_t dim) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i >= dim) return;
  const size_t first = static_cast<size_t>(blockIdx.y) * n_chosen;
  float sum = x[blockIdx.y * dim + i];
  for (uint32_t k = 0; k < n_chosen; ++k) {
    const int32_t expert = assigned.experts[first + k];
    if (expert < 0) break;
    float out = outs[(first + k) * dim + i];
    if (biases != nullptr) out += biases[static_cast<size_t>(expert) * dim + i];
    sum += assigned.weights[first + k] * out;
  }
  x[blockIdx.y * dim + i] = sum;
}

// One block per row computes normed · weight and scales the row by the sigmoid of the result.
__global__ __launch_bounds__(kRowThreads) void gate_each_row(float* x, size_t n, const float* normed,
                                                             const float* weight, size_t dim) {
  x += blockIdx.x * n;
  normed += blockIdx.x * dim;
  float sum = 0.0F;
  for (size_t i = threadIdx.x; i < dim; i += kRowThreads) sum = fmaf(normed[i], weight[i], sum);
  const float gate = 1.0F / (1.0F + exp_of(-block_sum(sum)));
  for (size_t i = threadIdx.x; i < n; i += kRowThreads) x[i] *= gate;
}

}  // namespace

void pack_assignments(Stream& stream, const float* x, uint32_t of_row, const Grouped& grouped, const PackedInputs& to) {
  with_kind(to.kind, [&]<Kind kKind>() {
    launch(pack_assigned_rows<kKind>, pack_grid<kKind>(to), {kPackThreads<kKind>}, 0, stream, x, of_row, grouped, to);
  });
}

void activate_assignments(Stream& stream, Activation activation, float* gate, const float* up, const Grouped& grouped,
                          const PackedInputs& to) {
  with_kind(to.kind, [&]<Kind kKind>() {
    launch(activate_assigned_rows<kKind>, pack_grid<kKind>(to), {kPackThreads<kKind>}, 0, stream, activation, gate, up,
           grouped, to);
  });
}

void add_biases(Stream& stream, float* x, const float* biases, const Assignments& assigned, size_t n_assignments,
                size_t n) {
  const Grid grid{static_cast<unsigned>(n_assignments), static_cast<unsigned>(ceil_div(n, kBlockThreads))};
  launch(add_bias_of_expert, grid, {kBlockThreads}, 0, stream, x, biases, assigned, n);
}

void combine_experts(Stream& stream, float* x, const float* outs, const float* biases, const Assignments& assigned,
                     size_t n_chosen, size_t n_rows, size_t dim) {
  const Grid grid{static_cast<unsigned>(ceil_div(dim, kBlockThreads)), static_cast<unsigned>(n_rows)};
  launch(combine_rows, grid, {kBlockThreads}, 0, stream, x, outs, biases, assigned, static_cast<uint32_t>(n_chosen),
         dim);
}

void gate_rows(Stream& stream, float* x, size_t n, const float* normed, const float* weight, size_t n_rows,
               size_t dim) {
  launch(gate_each_row, {static_cast<unsigned>(n_rows)}, {kRowThreads}, 0, stream, x, n, normed, weight, dim);
}

}  // namespace folio::infer::gpu
