// Lists the kinds of machines that test_infer tests.
#include "tests/infer/machines.h"

namespace folio::infer::test {

std::vector<MachineKind> machine_kinds() { return cpu_kinds(); }

}  // namespace folio::infer::test
