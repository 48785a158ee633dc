// A norm, and the findings for the models trained with it.
#pragma once

#include <string>
#include <vector>

#include "experiments/13_leak/leaks.h"
#include "experiments/common/report.h"

namespace folio::experiments::tutorial {

struct Variant {
  std::string name;
  NormOver norm;
  std::vector<Findings> findings{};  // by seed
  std::vector<double> early{};       // by seed: loss saved by later characters after a quarter of the steps
  torch::Tensor gradients_TT{};      // from the first seed

  // Returns a value of each seed's findings.
  [[nodiscard]] std::vector<double> each(double (*of)(const Findings&)) const {
    std::vector<double> values;
    for (const Findings& f : findings) values.push_back(of(f));
    return values;
  }
};

/// Draws the losses by position and the first seed's gradient maps.
void pictures(Report& report, const Variant& window, const Variant& position);

}  // namespace folio::experiments::tutorial
