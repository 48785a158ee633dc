// Draws which parts of each matrix two ranks hold, and the bytes held and sent.
#pragma once

#include <string>
#include <vector>

#include "experiments/27_ranks/two_ranks.h"

namespace folio::experiments {

/// What a row shows of a division: a rank's weights, or its optimizer moments.
struct HeldRow {
  std::string name;
  const std::vector<RankRecord>* ranks;
  bool moments = false;
};

/// Draws each matrix to scale with the parts of each rank. `whole` describes the whole model on one rank.
[[nodiscard]] std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows);

/// Draws the bytes held and sent by each rank for each division.
[[nodiscard]] std::string bytes_picture(const std::vector<std::string>& names,
                                        const std::vector<std::vector<RankRecord>>& records);

}  // namespace folio::experiments
