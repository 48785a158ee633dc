// Implements the emulator's interface for kernel tests on a real GPU. A GPU's order of threads can't be chosen, so each
// run is repeated and must give the same result, and the requested device shape is ignored.
#include "core/error.h"
#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu::host {

void require_same_in_all_orders(const std::function<std::vector<uint8_t>()>& run, unsigned /*n_random*/) {
  const std::vector<uint8_t> first = run();
  for (int again = 0; again < 2; ++again) {
    core::require(run() == first, "a GPU gives other bytes the next time: threads or blocks depend on their turn");
  }
}

DeviceScope::DeviceScope(DeviceShape shape) : before_(shape) {}
DeviceScope::~DeviceScope() = default;

}  // namespace folio::infer::gpu::host
