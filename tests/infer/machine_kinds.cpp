// The machines of test_infer.
#include "tests/infer/machines.h"

namespace folio::infer::test {

std::vector<MachineKind> machine_kinds() { return cpu_kinds(); }

}  // namespace folio::infer::test
