// The block tables of a search, drawn at each step.
#pragma once

#include <span>
#include <string>

#include "experiments/22_beams/texts.h"

namespace folio::experiments {

/// Time goes to the right, a lane is a beam, and its blocks lie on each other, the prompt's at the bottom. The colour
/// says how many beams hold a block. As SVG.
[[nodiscard]] std::string tables_picture(std::span<const SearchStep> steps, size_t width);

/// Blocks that the beams of a step hold together, each counted once.
[[nodiscard]] size_t blocks_held(const SearchStep& step);

}  // namespace folio::experiments
