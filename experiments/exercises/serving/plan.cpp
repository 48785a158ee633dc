// A scheduler's plan: whose rows does the next step take? Many requests are in work at once. A step of the engine
// computes one row for each token whose keys and values are still missing, of all requests together, and at most
// `max_rows`. A request that is being decoded has one row in each step: the token that was drawn last. One that is new
// has its whole prompt.
//
//     requests are in the order in which they came. The oldest is served first: it gets all rows that it needs, or what
//     is left of max_rows. Then the next one. A long prompt is so cut into parts. At most `max_running` requests may
//     have begun. One that waits (n_computed = 0) may begin while there are fewer.
//
// For example max_rows = 8, and (n_tokens, n_computed) = (21, 20), (33, 32), (100, 0), (5, 0): the first two have a row
// each, the third begins with the 6 rows that are left, and the fourth has to wait: 1, 1, 6, 0. In the next step the
// third has 6 computed.
//
// Check it with: make exercise N=plan
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// How many rows of each request the step takes; as many numbers as there are requests.
std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  throw Unfilled(
      "plan is still to be written, in experiments/exercises/serving/plan.cpp.\n"
      "Go through the requests in their order, and keep how many rows are left. A request needs n_tokens - "
      "n_computed.");
}

}  // namespace folio::exercises
