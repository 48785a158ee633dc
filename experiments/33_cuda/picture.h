// Pictures of the elements that each lane reads, from the emulator's trace of a warp.
#pragma once

#include <string>
#include <vector>

#include "tests/infer/cuda/host/counts.h"

namespace folio::experiments {

/// A group of accesses under one heading.
struct AccessPanel {
  std::string name;
  std::vector<infer::gpu::host::WarpAccess> accesses;
  size_t shown = 4;  ///< only the first `shown` accesses are drawn
};

/// Returns an SVG document that shows each access. For device memory, it shows the sectors that the warp touches; the
/// words that lanes access are filled. For shared memory, it shows the words accessed in each of the 32 banks, in one
/// line per wavefront. Each group of eight lanes has a color.
[[nodiscard]] std::string who_reads(const std::string& title, const std::vector<AccessPanel>& panels);

}  // namespace folio::experiments
