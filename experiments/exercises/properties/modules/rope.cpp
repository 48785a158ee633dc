// The tests of Folio's module.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/rope_properties.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Rope, exercises::Rope);
}  // namespace folio::test
