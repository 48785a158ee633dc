// The laws are those that our own module is tested by.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/laws/rms_norm_laws.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, RmsNorm, exercises::RMSNorm);
}  // namespace folio::test
