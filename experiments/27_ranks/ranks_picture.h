// Pictures of two ranks: which numbers of which matrix each has, and bytes.
#pragma once

#include <string>
#include <vector>

#include "experiments/27_ranks/two_ranks.h"

namespace folio::experiments {

/// What is shown of a division: the weights that a rank has, or the moments.
struct HeldRow {
  std::string name;
  const std::vector<RankRecord>* ranks;
  bool moments = false;
};

/// Each matrix of the model, to scale: who has which part. `whole` has the model's parameters at one rank.
[[nodiscard]] std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows);

/// Bytes held and sent by each rank of each division.
[[nodiscard]] std::string bytes_picture(const std::vector<std::string>& names,
                                        const std::vector<std::vector<RankRecord>>& records);

}  // namespace folio::experiments
