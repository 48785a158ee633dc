// Runs the tests of Folio's block on the reader's module.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/block_properties.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Block, exercises::Block);
}  // namespace folio::test
