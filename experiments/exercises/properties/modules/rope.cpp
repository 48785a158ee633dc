// Runs the tests of Folio's RoPE on the reader's module.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/rope_properties.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Rope, exercises::Rope);
}  // namespace folio::test
