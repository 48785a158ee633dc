#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  const auto begun = [](const Request& r) { return r.n_computed > 0; };
  auto n_running = static_cast<size_t>(std::count_if(requests.begin(), requests.end(), begun));
  std::vector<size_t> rows(requests.size(), 0);
  size_t left = max_rows;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!begun(requests[i])) {
      if (left == 0 || n_running >= max_running) continue;
      ++n_running;
    }
    rows[i] = std::min(left, requests[i].n_tokens - requests[i].n_computed);
    left -= rows[i];
  }
  return rows;
}

}  // namespace folio::exercises
