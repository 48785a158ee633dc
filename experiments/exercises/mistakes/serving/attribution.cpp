// The mistakes, each with the test that must fail first and words of its message:
//     norm_forgotten: TheNormDivides: without the norm
//     sum_of_squares: TheNormDivides: the squares are averaged
//     weights_forgotten: TheNormsWeightsMultiply: is 0.848528, but
//     own_norm: ABranchIsWhatItAdds: a norm of each part by itself
//     whole_stream: ABranchIsWhatItAdds: in place of the difference
//     branch_twice: ABranchCountsOnce: in it a second time
//     wrong_row: TheRowIsTheOneAskedFor: a share of the second
//     column_of_output: TheTokenHasARowOfTheOutput: the sum of a column
//     eps_forgotten: SharesSumToTheLogit: Without eps
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Floats attribution(const std::vector<Floats>& stream, const Readout& readout, size_t row, size_t token) {
  const size_t dim = readout.weight.size(), n_tokens = readout.output.size() / dim;
  if (wrong("wrong_row")) row = stream[0].size() / dim - 1;
  const auto rms = [&](const Floats& x) {
    double squares = 0.0;
    for (const float value : x) squares += value * value;
    const double mean = wrong("sum_of_squares") ? squares : squares / static_cast<double>(dim);
    return wrong("norm_forgotten") ? 1.0 : std::sqrt(mean + (wrong("eps_forgotten") ? 0.0F : readout.eps));
  };
  const auto row_of = [&](size_t i) {
    return Floats(stream[i].data() + row * dim, stream[i].data() + (row + 1) * dim);
  };
  Floats shares;
  for (size_t i = 0; i < stream.size(); ++i) {
    Floats part = row_of(i);
    if (i > 0 && !wrong("whole_stream")) {
      // "branch_twice" counts attention twice: for a feed-forward branch (even i), it subtracts the layer's input.
      const bool layers_input = wrong("branch_twice") && i % 2 == 0;
      const Floats before = row_of(layers_input ? i - 2 : i - 1);
      for (size_t d = 0; d < dim; ++d) part[d] -= before[d];
    }
    double share = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const size_t at = wrong("column_of_output") ? d * n_tokens + token : token * dim + d;
      share += part[d] * (wrong("weights_forgotten") ? 1.0F : readout.weight[d]) * readout.output[at];
    }
    shares.push_back(static_cast<float>(share / rms(wrong("own_norm") ? part : row_of(stream.size() - 1))));
  }
  return shares;
}

}  // namespace folio::exercises
