// Draws the block tables of a beam search at each step.
#pragma once

#include <span>
#include <string>

#include "experiments/22_beams/texts.h"

namespace folio::experiments {

/// Returns an SVG document: time runs to the right, a lane per beam, with its blocks stacked and the prompt's at the
/// bottom. A block's color is the number of beams that share it.
[[nodiscard]] std::string tables_picture(std::span<const SearchStep> steps, size_t width);

/// Returns the number of distinct blocks used by the beams of a step.
[[nodiscard]] size_t blocks_held(const SearchStep& step);

}  // namespace folio::experiments
