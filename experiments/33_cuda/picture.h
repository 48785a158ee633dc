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
  size_t shown = 4;  ///< the first accesses are drawn
};

/// Returns an SVG document with a row for each access. Device memory: the sectors that the warp touches, each of eight
/// words, filled where a lane accesses them. Shared memory: the 32 banks, a line for each wavefront. Colors stand for
/// the lanes 0 to 7, 8 to 15, 16 to 23 and 24 to 31.
[[nodiscard]] std::string who_reads(const std::string& title, const std::vector<AccessPanel>& panels);

}  // namespace folio::experiments
