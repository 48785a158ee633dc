// A mixture of experts: each token is processed by a few of many networks. First the router. It computes a logit for
// each expert and selects the n_chosen experts with the largest logits; ties go to the lower index. Their weights are
//
//     weight_e = exp(logit_e) / (sum of exp(logit) over the selected experts)
//
// which is the softmax over all experts, renormalized over the selected ones. Example with the logits (0, ln 3, -5, ln
// 2) and n_chosen = 2: experts 1 and 3, with the weights 3 / (3 + 2) = 0.6 and 0.4.
//
// Then the computation. Experts are more efficient on many tokens at once. So each selected expert runs once, on all
// rows that selected it, and a row's output is the sum of its experts' outputs times their weights. There is no
// capacity limit: an expert processes all rows that selected it.
//
// Read first: experiments/24_experts/README.md.
// Check it with: make exercise N=experts
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the n_chosen selected experts and their weights, in the order of the experts' indices.
std::vector<Route> route(const Floats& logits, size_t n_chosen) {
  throw Unfilled(
      "route is still to be written, in experiments/exercises/serving/experts.cpp.\n"
      "Find the largest logits first. Then exp(logit - largest) of these, divided by their sum.");
}

// Returns the outputs (n, dim) for x (n, dim). routes: n lists from route(). run(expert, rows) maps rows (m, dim) to
// the expert's outputs (m, dim).
Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run) {
  throw Unfilled(
      "route is there; combine is still to be written, in experiments/exercises/serving/experts.cpp.\n"
      "For each expert: collect the rows that chose it, run it once, and add what comes back to the rows it is of.");
}

}  // namespace folio::exercises
