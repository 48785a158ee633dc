// Measures a GPU's memory bandwidth. bench compares it with the bandwidth that a step reaches.
#pragma once

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

/// Returns the bandwidth of copies within device memory in bytes per second, counting bytes read and bytes written: the
/// best of five runs. Copies `most` bytes, or less if little memory is free.
[[nodiscard]] double copy_bandwidth(int device, size_t most = size_t{4} << 30U);

}  // namespace folio::infer::gpu
