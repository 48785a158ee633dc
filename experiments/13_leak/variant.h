// The leak measurements for one variant of the norm, by seed, and charts that compare two variants.
#pragma once

#include <string>
#include <vector>

#include "experiments/13_leak/leaks.h"
#include "experiments/common/report.h"

namespace folio::experiments::tutorial {

struct Variant {
  std::string name;
  NormOver norm;
  std::vector<Findings> findings{};  // by seed: leaks of the trained model
  std::vector<double> early{};       // by seed: loss reduction due to later characters, after 1/4 of the steps
  torch::Tensor gradients_TT{};      // first seed: influence of each character (column) on each position's loss (row)

  [[nodiscard]] std::vector<double> each(double (*of)(const Findings&)) const {
    std::vector<double> values;
    for (const Findings& f : findings) values.push_back(of(f));
    return values;
  }
};

/// Draws the losses by position and the first seed's gradient maps for two variants of the norm.
void pictures(Report& report, const Variant& window, const Variant& position);

}  // namespace folio::experiments::tutorial
