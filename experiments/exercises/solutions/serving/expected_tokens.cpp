#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

double expected_tokens(const std::vector<double>& right) {
  double tokens = 1.0;
  double kept = 1.0;
  for (const double p : right) {
    kept *= p;
    tokens += kept;
  }
  return tokens;
}

}  // namespace folio::exercises
