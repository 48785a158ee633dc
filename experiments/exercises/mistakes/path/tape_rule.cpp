// The mistakes, each with the test that must fail first and words of its message:
//     mixed_up: AFactorsGradientIsTheOtherFactor: the two mixed up
//     no_dy: AFactorsGradientIsTheOtherFactor: forget dy
//     set_instead_of_added: GradientsAreAdded: += and not =
//     last_term: AnInputGetsASumOverAllThatItReaches: the last term alone
//     rows_too_short: RowsAreAsLongAsTheirMatrix: `inner` numbers
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db) {
  if (wrong("set_instead_of_added")) da.assign(da.size(), 0.0), db.assign(db.size(), 0.0);
  const size_t row_of_a = wrong("rows_too_short") ? columns : inner;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t c = 0; c < columns; ++c) {
        const double d = wrong("no_dy") ? 1.0 : dy[r * columns + c];
        const size_t at_a = r * row_of_a + i, at_b = i * columns + c;
        if (!wrong("last_term") || c + 1 == columns) da[at_a] += d * (wrong("mixed_up") ? a[at_a] : b[at_b]);
        db[at_b] += d * (wrong("mixed_up") ? b[at_b] : a[at_a]);
      }
    }
  }
}

}  // namespace folio::exercises
