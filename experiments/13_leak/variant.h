// A norm, and what was found in the models that were trained with it.
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
  std::vector<double> early{};       // by seed: what the future saves after a quarter of the steps
  torch::Tensor gradients_TT{};      // the first seed's

  // Of each seed.
  [[nodiscard]] std::vector<double> each(double (*of)(const Findings&)) const {
    std::vector<double> values;
    for (const Findings& f : findings) values.push_back(of(f));
    return values;
  }
};

/// The losses by place, and the gradient maps of the first seed.
void pictures(Report& report, const Variant& window, const Variant& position);

}  // namespace folio::experiments::tutorial
