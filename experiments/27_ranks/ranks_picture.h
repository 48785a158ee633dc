// Draws which parts of each matrix two ranks hold, and how many bytes each rank holds and sends.
#pragma once

#include <string>
#include <vector>

#include "experiments/27_ranks/two_ranks.h"

namespace folio::experiments {

/// A row of the picture: the weights (or, if `moments` is true, the optimizer moments) that each of two ranks holds
/// with one kind of parallelism. (*ranks)[i] is the record of rank i.
struct HeldRow {
  std::string name;
  const std::vector<RankRecord>* ranks;
  bool moments = false;
};

/// Returns an SVG document with each matrix to scale, colored by rank. `whole` is the record of a rank that holds all
/// parameters of the model.
[[nodiscard]] std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows);

/// Returns an SVG bar chart of the bytes that each rank holds and sends. names[i] labels the bars of records[i], which
/// has one record per rank.
[[nodiscard]] std::string bytes_picture(const std::vector<std::string>& names,
                                        const std::vector<std::vector<RankRecord>>& records);

}  // namespace folio::experiments
