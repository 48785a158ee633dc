#include "experiments/13_leak/variant.h"

#include "experiments/common/heat_map.h"

namespace folio::experiments::tutorial {
namespace {

// What the future saves each place: the mean over the seeds.
train::LineChart::Series saved_by_place(const Variant& v) {
  train::LineChart::Series series{.name = v.name, .points = {}};
  for (size_t t = 0; t < v.findings[0].losses.size(); ++t) {
    double sum = 0.0;
    for (const Findings& f : v.findings) sum += f.other_futures[t] - f.losses[t];
    series.points.push_back({static_cast<double>(t), sum / static_cast<double>(v.findings.size())});
  }
  return series;
}

// Square roots of the shares, so that small ones can be seen.
HeatMap::Panel panel(const Variant& v) {
  const torch::Tensor map_TT = (v.gradients_TT / v.gradients_TT.sum(1, /*keepdim=*/true)).sqrt().contiguous();
  return {.title = v.name,
          .rows = map_TT.size(0),
          .columns = map_TT.size(1),
          .values = {map_TT.data_ptr<double>(), map_TT.data_ptr<double>() + map_TT.numel()}};
}

}  // namespace

void pictures(Report& report, const Variant& window, const Variant& position) {
  report.picture("saved.svg", {.title = "What the true future saves, against another window's",
                               .x_label = "place in the window",
                               .y_label = "nats per character",
                               .series = {saved_by_place(window), saved_by_place(position)}});
  report.picture("gradients.svg",
                 HeatMap{.title = "How much the loss at each place (row) depends on each place (column)",
                         .subtitle = "size of the gradient, as a share of its row, and of that the square root",
                         .row_label = "place of the loss",
                         .column_label = "place of the character",
                         .panels = {panel(window), panel(position)}}
                     .svg());
}

}  // namespace folio::experiments::tutorial
