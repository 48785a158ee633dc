#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongPart { None, NoRelu, NoBias, Transposed, Everything, SameAtAll, RowsOfW2, BiasAtAll, TwoHalves };
using PartMistake = WrongPart();

template <WrongPart kWrong>
WrongPart this_part() {
  return kWrong;
}

const std::vector<Mistake<PartMistake>> kPartMistakes{
    {"no_relu", "OneRankHasTheWholeLayer", "is 8, but", this_part<WrongPart::NoRelu>},
    {"no_bias", "OneRankHasTheWholeLayer", "is 6, but", this_part<WrongPart::NoBias>},
    {"transposed", "MatricesLieRowByRow", "w2 has rows of hidden numbers", this_part<WrongPart::Transposed>},
    {"everything", "ARankHasItsShareAlone", "8 hidden numbers, 4 ranks", this_part<WrongPart::Everything>},
    {"same_at_all", "TheSumOfTwoIsTheLayer", "the same hidden numbers", this_part<WrongPart::SameAtAll>},
    {"rows_of_w2", "TheSumOfTwoIsTheLayer", "in place of columns", this_part<WrongPart::RowsOfW2>},
    {"bias_at_all", "TheBiasIsInTheSumOnce", "not at each rank", this_part<WrongPart::BiasAtAll>},
    {"two_halves", "TheSumOfFourIsTheLayer", "in place of n_ranks", this_part<WrongPart::TwoHalves>},
};

WrongPart wrong_part() { return chosen(kPartMistakes, this_part<WrongPart::None>)(); }

}  // namespace

FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks) {
  const WrongPart w = wrong_part();
  if (w == WrongPart::Everything) return whole;
  const size_t h = whole.hidden / n_ranks;
  const size_t first = w == WrongPart::SameAtAll ? 0 : w == WrongPart::TwoHalves ? (rank == 0 ? 0 : h) : rank * h;
  FeedForward part{.dim = whole.dim, .hidden = h, .w1 = {}, .w2 = {}, .bias = Floats(whole.dim, 0.0F)};
  part.w1.assign(whole.w1.data() + first * whole.dim, whole.w1.data() + (first + h) * whole.dim);
  for (size_t i = 0; i < whole.dim; ++i) {
    const float* row =
        whole.w2.data() + (w == WrongPart::RowsOfW2 ? rank * h * whole.dim + i * h : i * whole.hidden + first);
    part.w2.insert(part.w2.end(), row, row + h);
  }
  if (rank == 0 || w == WrongPart::BiasAtAll) part.bias = whole.bias;
  return part;
}

Floats output_of(const FeedForward& layer, const Floats& x) {
  const WrongPart w = wrong_part();
  Floats y = w == WrongPart::NoBias ? Floats(layer.dim, 0.0F) : layer.bias;
  for (size_t j = 0; j < layer.hidden; ++j) {
    float sum = 0.0F;
    for (size_t d = 0; d < layer.dim; ++d) sum += layer.w1[j * layer.dim + d] * x[d];
    if (w != WrongPart::NoRelu) sum = std::max(sum, 0.0F);
    for (size_t i = 0; i < layer.dim; ++i) {
      y[i] += layer.w2[w == WrongPart::Transposed ? j * layer.dim + i : i * layer.hidden + j] * sum;
    }
  }
  return y;
}

}  // namespace folio::exercises
