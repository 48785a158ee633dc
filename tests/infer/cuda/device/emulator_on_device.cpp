// What the kernels' tests ask of the emulator, where they run on a GPU. It has no orders to choose: what has to be the
// same in all of them has to be the same each time. Its shape is what it is.
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
