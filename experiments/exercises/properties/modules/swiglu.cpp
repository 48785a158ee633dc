// Runs the tests of Folio's SwiGLU on the reader's module.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/swiglu_properties.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, SwiGlu, exercises::SwiGLU);
}  // namespace folio::test
