// A scheduler's plan: the rows of the next step. The engine processes many requests at once. A step computes at
// most `max_rows` rows over all requests: a row per token whose keys and values are not stored yet. A request in decode
// needs one row per step, for the last drawn token. A new request needs a row per token of its prompt.
//
//     Requests are in order of arrival, and the oldest is served first. Each gets all the rows that it needs, or what
//     is left of max_rows. This splits long prompts over several steps. At most `max_running` requests may be running;
//     a waiting request (n_computed = 0) may start only while fewer are running.
//
// Example with max_rows = 8 and (n_tokens, n_computed) = (21, 20), (33, 32), (100, 0), (5, 0): the first two get a row
// each, the third starts with the remaining 6 rows, and the fourth waits: 1, 1, 6, 0. In the next step the third has
// n_computed = 6.
//
// Check it with: make exercise N=plan
#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns the number of rows for each request, in the order of `requests`.
std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  throw Unfilled(
      "plan is still to be written, in experiments/exercises/serving/plan.cpp.\n"
      "Go through the requests in their order, and keep how many rows are left. A request needs n_tokens - "
      "n_computed.");
}

}  // namespace folio::exercises
