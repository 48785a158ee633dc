#include "experiments/13_leak/variant.h"

#include "experiments/common/heat_map.h"

namespace folio::experiments::tutorial {
namespace {

train::LineChart::Series by_position(const std::string& name, const std::vector<Findings>& findings,
                                     std::vector<double> Findings::*losses) {
  train::LineChart::Series series{.name = name, .points = {}};
  for (size_t t = 0; t < (findings[0].*losses).size(); ++t) {
    double sum = 0.0;
    for (const Findings& f : findings) sum += (f.*losses)[t];
    series.points.push_back({static_cast<double>(t), sum / static_cast<double>(findings.size())});
  }
  return series;
}

HeatMap::Panel panel(const Variant& v) {
  const torch::Tensor map_TT = (v.gradients_TT / v.gradients_TT.sum(1, /*keepdim=*/true)).contiguous();
  return {.title = v.name,
          .rows = map_TT.size(0),
          .columns = map_TT.size(1),
          .values = {map_TT.data_ptr<double>(), map_TT.data_ptr<double>() + map_TT.numel()}};
}

}  // namespace

void pictures(Report& report, const Variant& window, const Variant& position) {
  report.picture("places.svg",
                 {.title = "With the norm over the window, the future helps every place but the last",
                  .x_label = "place in the window",
                  .y_label = "validation loss (nats per character)",
                  .series = {by_position("window", window.findings, &Findings::losses),
                             by_position("window, other futures", window.findings, &Findings::other_futures),
                             by_position("one position", position.findings, &Findings::losses)}});
  report.picture("gradients.svg",
                 HeatMap{.title = "How much the loss at each place (row) depends on each place (column)",
                         .subtitle = "size of the gradient, as a share of its row",
                         .row_label = "place of the loss",
                         .column_label = "place of the character",
                         .panels = {panel(window), panel(position)}}
                     .svg());
}

}  // namespace folio::experiments::tutorial
