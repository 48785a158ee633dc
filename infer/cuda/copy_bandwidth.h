// The speed of a GPU's memory, for bench: what share of it a step reaches.
#pragma once

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

/// Bytes per second, read and written, of copies of 4 GB within the device's memory, the best of five; of less, where
/// less is free.
[[nodiscard]] double copy_bandwidth(Stream& stream);

}  // namespace folio::infer::gpu
