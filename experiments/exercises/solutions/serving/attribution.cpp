#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Floats attribution(const std::vector<Floats>& stream, const Readout& readout, size_t row, size_t token) {
  const size_t dim = readout.weight.size();
  double squares = 0.0;
  for (size_t d = 0; d < dim; ++d) squares += std::pow(stream.back()[row * dim + d], 2);
  const double rms = std::sqrt(squares / static_cast<double>(dim) + readout.eps);
  Floats shares;
  for (size_t i = 0; i < stream.size(); ++i) {
    double share = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const double before = i == 0 ? 0.0 : stream[i - 1][row * dim + d];
      share += (stream[i][row * dim + d] - before) * readout.weight[d] * readout.output[token * dim + d];
    }
    shares.push_back(static_cast<float>(share / rms));
  }
  return shares;
}

}  // namespace folio::exercises
