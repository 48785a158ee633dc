#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongShare { None, NoNorm, SumOfSquares, NoWeights, OwnNorm, Whole, BranchTwice, LastRow, Column, NoEps };
using ShareMistake = WrongShare();

template <WrongShare kWrong>
WrongShare this_share() {
  return kWrong;
}

const std::vector<Mistake<ShareMistake>> kShareMistakes{
    {"norm_forgotten", "TheNormDivides", "without the norm", this_share<WrongShare::NoNorm>},
    {"sum_of_squares", "TheNormDivides", "the squares are averaged", this_share<WrongShare::SumOfSquares>},
    {"weights_forgotten", "TheNormsWeightsMultiply", "is 0.848528, but", this_share<WrongShare::NoWeights>},
    {"own_norm", "ABranchIsWhatItAdds", "a norm of each part by itself", this_share<WrongShare::OwnNorm>},
    {"whole_stream", "ABranchIsWhatItAdds", "in place of the difference", this_share<WrongShare::Whole>},
    {"branch_twice", "ABranchCountsOnce", "in it a second time", this_share<WrongShare::BranchTwice>},
    {"wrong_row", "TheRowIsTheOneAskedFor", "a share of the second", this_share<WrongShare::LastRow>},
    {"column_of_output", "TheTokenHasARowOfTheOutput", "the sum of a column", this_share<WrongShare::Column>},
    {"eps_forgotten", "SharesSumToTheLogit", "Without eps", this_share<WrongShare::NoEps>},
};

WrongShare wrong_share() { return chosen(kShareMistakes, this_share<WrongShare::None>)(); }

}  // namespace

Floats attribution(const std::vector<Floats>& stream, const Readout& readout, size_t row, size_t token) {
  const WrongShare w = wrong_share();
  const size_t dim = readout.weight.size(), n_tokens = readout.output.size() / dim;
  if (w == WrongShare::LastRow) row = stream[0].size() / dim - 1;
  const auto rms = [&](const Floats& x) {
    double squares = 0.0;
    for (const float value : x) squares += value * value;
    const double mean = w == WrongShare::SumOfSquares ? squares : squares / static_cast<double>(dim);
    return w == WrongShare::NoNorm ? 1.0 : std::sqrt(mean + (w == WrongShare::NoEps ? 0.0F : readout.eps));
  };
  const auto row_of = [&](size_t i) {
    return Floats(stream[i].data() + row * dim, stream[i].data() + (row + 1) * dim);
  };
  Floats shares;
  for (size_t i = 0; i < stream.size(); ++i) {
    Floats part = row_of(i);
    if (i > 0 && w != WrongShare::Whole) {
      // BranchTwice counts attention twice: for a feed-forward branch (even i), it subtracts the layer's input.
      const bool layers_input = w == WrongShare::BranchTwice && i % 2 == 0;
      const Floats before = row_of(layers_input ? i - 2 : i - 1);
      for (size_t d = 0; d < dim; ++d) part[d] -= before[d];
    }
    double share = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const size_t at = w == WrongShare::Column ? d * n_tokens + token : token * dim + d;
      share += part[d] * (w == WrongShare::NoWeights ? 1.0F : readout.weight[d]) * readout.output[at];
    }
    shares.push_back(static_cast<float>(share / rms(w == WrongShare::OwnNorm ? part : row_of(stream.size() - 1))));
  }
  return shares;
}

}  // namespace folio::exercises
