#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong { None, MixedUp, NoDy, Set, LastTerm, RowsTooShort };

template <Wrong kWrong>
void rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns, Doubles& da,
          Doubles& db) {
  using enum Wrong;
  if (kWrong == Set) da.assign(da.size(), 0.0), db.assign(db.size(), 0.0);
  const size_t row_of_a = kWrong == RowsTooShort ? columns : inner;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t c = 0; c < columns; ++c) {
        const double d = kWrong == NoDy ? 1.0 : dy[r * columns + c];
        const size_t at_a = r * row_of_a + i, at_b = i * columns + c;
        if (kWrong != LastTerm || c + 1 == columns) da[at_a] += d * (kWrong == MixedUp ? a[at_a] : b[at_b]);
        db[at_b] += d * (kWrong == MixedUp ? b[at_b] : a[at_a]);
      }
    }
  }
}

const std::vector<Mistake<decltype(matmul_rule)>> kMistakes{
    {"mixed_up", "AFactorsGradientIsTheOtherFactor", "the two mixed up", rule<Wrong::MixedUp>},
    {"no_dy", "AFactorsGradientIsTheOtherFactor", "forget dy", rule<Wrong::NoDy>},
    {"set_instead_of_added", "GradientsAreAdded", "+= and not =", rule<Wrong::Set>},
    {"last_term", "AnInputGetsASumOverAllThatItReaches", "the last term alone", rule<Wrong::LastTerm>},
    {"rows_too_short", "RowsAreAsLongAsTheirMatrix", "`inner` numbers", rule<Wrong::RowsTooShort>},
};

}  // namespace

void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db) {
  chosen(kMistakes, rule<Wrong::None>)(a, b, dy, rows, inner, columns, da, db);
}

}  // namespace folio::exercises
