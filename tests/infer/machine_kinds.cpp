// Defines machine_kinds() of test_infer: the CPU machines. test_infer_cuda also tests an emulated GPU.
#include "tests/infer/machines.h"

namespace folio::infer::test {

std::vector<MachineKind> machine_kinds() { return cpu_kinds(); }

}  // namespace folio::infer::test
