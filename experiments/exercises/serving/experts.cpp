// A mixture of experts: each token takes some of many networks. First the router. It has a logit for each expert, and
// the token takes the n_chosen experts with the largest; of equal ones the first. Their weights are
//
//     weight_e = exp(logit_e) / (sum of exp(logit) over the experts that are chosen)
//
// which is the softmax over all experts, divided by what of it the chosen ones have. For example the logits (0, ln 3,
// -5, ln 2) and n_chosen = 2: experts 1 and 3, with the weights 3 / (3 + 2) = 0.6 and 0.4.
//
// Then the work. An expert is fast where it gets many tokens at once. So the tokens are not run one after the other:
// each expert that somebody chose is run once, on all rows that chose it, and a row's output is the sum of its experts'
// outputs, each times its weight. However many rows choose one expert, it takes them all.
//
// Read first: experiments/24_experts/README.md.
// Check it with: make exercise N=experts
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// The chosen experts in the order of their numbers.
std::vector<Route> route(const Floats& logits, size_t n_chosen) {
  throw Unfilled(
      "route is still to be written, in experiments/exercises/serving/experts.cpp.\n"
      "Find the largest logits first. Then exp(logit - largest) of these, divided by their sum.");
}

// x: (n, dim). routes: n lists, as route() gives them. run(expert, rows) gets the rows (m, dim) of an expert and
// returns its outputs, (m, dim). Returns (n, dim).
Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run) {
  throw Unfilled(
      "route is there; combine is still to be written, in experiments/exercises/serving/experts.cpp.\n"
      "For each expert: collect the rows that chose it, run it once, and add what comes back to the rows it is of.");
}

}  // namespace folio::exercises
