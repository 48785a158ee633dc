// Draws the block tables of a beam search at each step.
#pragma once

#include <span>
#include <string>

#include "experiments/22_beams/texts.h"

namespace folio::experiments {

/// Returns an SVG document with a column per step and a lane for each of `width` beams. A lane stacks the beam's KV
/// blocks, with the prompt's at the bottom. Colors show whether all, some or one of the beams hold a block.
[[nodiscard]] std::string tables_picture(std::span<const SearchStep> steps, size_t width);

/// Returns the number of distinct blocks used by the beams of a step.
[[nodiscard]] size_t blocks_held(const SearchStep& step);

}  // namespace folio::experiments
