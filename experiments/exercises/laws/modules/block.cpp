// The laws are those that our own module is tested by.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/laws/block_laws.h"

namespace folio::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Block, exercises::Block);
}  // namespace folio::test
