// Draws which parts of each matrix two ranks hold, and how many bytes each rank holds and sends.
#pragma once

#include <string>
#include <vector>

#include "experiments/27_ranks/two_ranks.h"

namespace folio::experiments {

/// A row of the picture: which weights, or optimizer moments if `moments`, each of two ranks holds under one Division.
struct HeldRow {
  std::string name;
  const std::vector<RankRecord>* ranks;
  bool moments = false;
};

/// Returns an SVG document with each matrix to scale, colored by rank. `whole` is the record of a rank that holds all
/// parameters of the model.
[[nodiscard]] std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows);

/// Returns an SVG bar chart of the bytes that each rank holds and sends. names[i] is the Division of records[i][rank].
[[nodiscard]] std::string bytes_picture(const std::vector<std::string>& names,
                                        const std::vector<std::vector<RankRecord>>& records);

}  // namespace folio::experiments
