// Mixture of experts on a GPU. An assignment is a pair of a row and one of its experts. Assignments are numbered row by
// row, then in the order of the experts. The device groups them by expert without the host, so that each group is
// multiplied by one matrix. Launches and their sizes don't depend on the routing, so a step can be recorded.
#pragma once

#include "infer/cuda/kernels.h"
#include "infer/reference/route.h"

namespace folio::infer::gpu {

using kernels::Routing;

/// Assignments of a step: (rows, n_chosen) experts in ascending order and their weights. If a row has fewer experts,
/// its last entries have expert -1 and weight 0.
struct Assignments {
  int32_t* experts = nullptr;
  float* weights = nullptr;
};

/// Replaces logits `routes` (n_rows, n_experts) by expert weights, bit-identical to kernels::route, and lists each
/// row's experts in `assigned`. `bias` (n_experts), or null, is added to scores only to choose experts. If a
/// logit is NaN, the row may differ from the reference, but at most n_chosen experts are chosen, each once.
void route(Stream& stream, float* routes, const float* bias, const Routing& routing, size_t n_rows,
           const Assignments& assigned);

/// Assignments of one expert whose inputs are multiplied together.
struct ExpertGroup {
  int32_t expert;
  uint32_t first;  ///< index in Grouped::assignments
  uint32_t n;      ///< number of assignments; 0: the group is unused
};

/// Assignments grouped by expert, at most `size` in a group; the groups in use come first. Assignment i of group g is
/// packed in row g * size + i of the inputs.
struct Grouped {
  ExpertGroup* groups = nullptr;   ///< (n_groups), those in use first
  int32_t* assignments = nullptr;  ///< (n_experts, rows): row e has expert e's counts[e] assignments, ascending
  uint32_t* counts = nullptr;      ///< (n_experts): assignments of each; then finished blocks, 0 between launches
  uint32_t n_groups = 0;
  uint32_t size = 0;  ///< maximum assignments of a group: 8 or 64

  [[nodiscard]] FOLIO_BOTH constexpr size_t slots() const { return size_t{n_groups} * size; }
};

/// Returns a Grouped with the group size and the maximum number of groups for n_assignments assignments, and null
/// pointers. An expert's last group may be partial.
[[nodiscard]] constexpr Grouped group_sizes(size_t n_assignments, size_t n_experts) {
  Grouped g;
  g.size = n_assignments <= 4 * n_experts ? 8 : 64;
  const size_t experts = n_assignments < n_experts ? n_assignments : n_experts;
  const size_t most = (n_assignments + (g.size - 1) * experts) / g.size;
  g.n_groups = static_cast<uint32_t>(most < n_assignments ? most : n_assignments);
  return g;
}

/// Groups the assignments of `assigned` by expert. Within an expert, they keep their order.
void group_assignments(Stream& stream, const Assignments& assigned, const Routing& routing, size_t n_rows,
                       const Grouped& grouped);

/// Packs the input of each assignment i, row i / of_row of x (·, k), in its row of `to` (see Grouped). of_row is
/// n_chosen if x has the step's rows, and 1 if x has a row for each assignment. `to` has grouped.slots() rows.
void pack_assignments(Stream& stream, const float* x, uint32_t of_row, const Grouped& grouped, const PackedInputs& to);
/// Computes activate() for gate (assignments, k) and packs each row in the assignment's row of `to`, in one kernel.
void activate_assignments(Stream& stream, Activation activation, float* gate, const float* up, const Grouped& grouped,
                          const PackedInputs& to);

/// Computes out (assignments, n_out) of each product: an assignment's input times the transpose of its expert's matrix.
/// `weight` is the first matrix of a stack. Biases are ignored. Results are bit-identical to multiply().
void multiply_experts(Stream& stream, const PackedInputs& x, const Matmul* products, size_t n_products,
                      const Grouped& grouped);

/// Adds to each row of x (assignments, n) its expert's row of biases (experts, n).
void add_biases(Stream& stream, float* x, const float* biases, const Assignments& assigned, size_t n_assignments,
                size_t n);

/// Adds to each row of x (n_rows, dim) the sum of weight · (output + bias) over its assignments, in order. outs is
/// (assignments, dim). A bias is the expert's row of `biases` (experts, dim), or 0 if `biases` is null.
void combine_experts(Stream& stream, float* x, const float* outs, const float* biases, const Assignments& assigned,
                     size_t n_chosen, size_t n_rows, size_t dim);

/// Multiplies row r of x (n_rows, n) by sigmoid(normed[r] · weight). `normed` is (n_rows, dim), `weight` (dim).
void gate_rows(Stream& stream, float* x, size_t n, const float* normed, const float* weight, size_t n_rows, size_t dim);

}  // namespace folio::infer::gpu
