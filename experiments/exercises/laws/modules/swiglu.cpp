// The laws are those that our own module is tested by.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/laws/swiglu_laws.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, SwiGlu, exercises::SwiGLU);
}  // namespace folio::test
