// Mixtures of experts on the device. Each row takes some experts: a taking is a row with one of them, and the takings
// of a step are numbered row by row, a row's in the order of its experts. What is multiplied by one expert's matrix
// lies together: groups of takings, each of one expert, which the device finds without asking the host. So a step has
// as many launches, of the same sizes, whichever experts its rows take, and can be recorded.
#pragma once

#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {

/// What a router does with its logits: kernels::Routing of reference/route.h, on the device.
struct Routing {
  uint32_t n_experts = 0;
  uint32_t n_chosen = 0;
  uint32_t n_groups = 1;  ///< of neighbouring experts, of equal size
  uint32_t groups_chosen = 1;
  bool sigmoid = false;  ///< else the softmax
  bool normalizes = false;
  float scale = 1.0F;
};

/// What the rows of a step take: (rows, n_chosen) experts in rising order, and their weights. -1, and 0, where a row
/// takes fewer.
struct Taken {
  int32_t* experts = nullptr;
  float* weights = nullptr;
};

/// routes (n_rows, n_experts), logits, become the experts' weights as kernels::route makes them, bit for bit, and
/// `taken` lists those of each row. `bias` is (n_experts), or null. Of what is not a number the likeness to the
/// reference ends, but at most n_chosen experts are taken, each once.
void route(Stream& stream, float* routes, const float* bias, const Routing& routing, size_t n_rows, const Taken& taken);

/// Takings that meet one expert's matrix together.
struct ExpertGroup {
  int32_t expert;
  uint32_t first;  ///< place in Grouped::takings
  uint32_t n;      ///< 0: none
};

/// The takings by expert: groups of at most `size`, as many as there can be, those in use first. A taking's inputs are
/// packed in the row that is its group's number times `size`, and its place in the group.
struct Grouped {
  ExpertGroup* groups = nullptr;  ///< (n_groups)
  int32_t* takings = nullptr;     ///< (n_experts, rows)
  uint32_t* counts = nullptr;     ///< (n_experts), then a counter, 0 before and after
  uint32_t n_groups = 0;
  uint32_t size = 0;  ///< 8 or 64

  [[nodiscard]] FOLIO_BOTH constexpr size_t slots() const { return size_t{n_groups} * size; }
};

/// The size of groups for so many takings, and their largest number: an expert fills all of its groups but one.
[[nodiscard]] constexpr Grouped group_sizes(size_t n_takings, size_t n_experts) {
  Grouped g;
  g.size = n_takings <= 4 * n_experts ? 8 : 64;
  const size_t experts = n_takings < n_experts ? n_takings : n_experts;
  const size_t most = (n_takings + (g.size - 1) * experts) / g.size;
  g.n_groups = static_cast<uint32_t>(most < n_takings ? most : n_takings);
  return g;
}

/// Groups the takings of `taken`: in each group, and from one group of an expert to the next, in order.
void group_takings(Stream& stream, const Taken& taken, const Routing& routing, size_t n_rows, const Grouped& grouped);

/// Packs the inputs of each taking in its place: pack_inputs of the row x[taking / of_row] of (·, k), so `of_row` is
/// n_chosen where rows are taken, and 1 where each taking has a row of its own. `to` has grouped.slots() rows.
void pack_takings(Stream& stream, const float* x, uint32_t of_row, const Grouped& grouped, const PackedInputs& to);
/// gate (takings, k) = gated(gate) * up, and packed: two operations in one.
void activate_takings(Stream& stream, Activation activation, float* gate, const float* up, const Grouped& grouped,
                      const PackedInputs& to);

/// Each product's out (takings, n_out) = the taking's input · its expert's matrixᵀ. The matrices of a stack follow each
/// other; weight is the first. Biases are not read. Bit for bit what multiply() makes of the row.
void multiply_experts(Stream& stream, const PackedInputs& x, const Product* products, size_t n_products,
                      const Grouped& grouped);

/// x (takings, n) += the bias of the taking's expert, a row of biases (experts, n).
void add_biases(Stream& stream, float* x, const float* biases, const Taken& taken, size_t n_takings, size_t n);

/// x (n_rows, dim) += Σ weight · (outs (takings, dim) + bias), over a row's takings in order. The bias is the expert's
/// row of biases (experts, dim); null: there is none.
void combine_experts(Stream& stream, float* x, const float* outs, const float* biases, const Taken& taken,
                     size_t n_chosen, size_t n_rows, size_t dim);

/// Each row of x (n_rows, n) *= sigmoid(row of `normed` (n_rows, dim) · weight).
void gate_rows(Stream& stream, float* x, size_t n, const float* normed, const float* weight, size_t n_rows, size_t dim);

}  // namespace folio::infer::gpu
