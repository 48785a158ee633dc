// Runs the tests of Folio's RMSNorm on the reader's module.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/rms_norm_properties.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, RmsNorm, exercises::RMSNorm);
}  // namespace folio::test
