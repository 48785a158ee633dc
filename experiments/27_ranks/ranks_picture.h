// Draws which parts of each matrix two ranks hold, and how many bytes each rank holds and sends.
#pragma once

#include <string>
#include <vector>

#include "experiments/27_ranks/two_ranks.h"

namespace folio::experiments {

/// A row of the picture: the weights, or the optimizer moments, that two ranks hold with one Division.
struct HeldRow {
  std::string name;
  const std::vector<RankRecord>* ranks;
  bool moments = false;
};

/// Returns an SVG document with each matrix to scale, colored by rank. `whole` is a rank that holds the whole model.
[[nodiscard]] std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows);

/// Returns an SVG bar chart of the bytes that each rank holds and sends. `names` and `records`: one for each Division.
[[nodiscard]] std::string bytes_picture(const std::vector<std::string>& names,
                                        const std::vector<std::vector<RankRecord>>& records);

}  // namespace folio::experiments
