#include "experiments/exercises/path/path.h"

namespace folio::exercises {

void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t c = 0; c < columns; ++c) {
        da[r * inner + i] += dy[r * columns + c] * b[i * columns + c];
        db[i * columns + c] += dy[r * columns + c] * a[r * inner + i];
      }
    }
  }
}

}  // namespace folio::exercises
