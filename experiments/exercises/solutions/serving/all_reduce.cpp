#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void all_reduce(Floats& x, const Ring& ring) {
  const size_t p = ring.n_ranks;
  const auto begin = [&](size_t chunk) { return x.begin() + static_cast<std::ptrdiff_t>(chunk * x.size() / p); };
  const auto pass = [&](size_t chunk) { return ring.pass(Floats(begin(chunk % p), begin(chunk % p + 1))); };
  for (size_t step = 0; step + 1 < p; ++step) {
    const size_t sent = ring.rank + p - step;
    const Floats came = pass(sent);
    std::transform(came.begin(), came.end(), begin((sent - 1) % p), begin((sent - 1) % p), std::plus<>());
  }
  for (size_t step = 0; step + 1 < p; ++step) {
    const size_t sent = ring.rank + 1 + p - step;
    const Floats came = pass(sent);
    std::copy(came.begin(), came.end(), begin((sent - 1) % p));
  }
}

}  // namespace folio::exercises
