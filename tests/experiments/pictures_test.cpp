// Tests the studies' figures: heat maps and interval charts are well-formed SVG files that draw the given values.
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "experiments/common/heat_map.h"
#include "experiments/common/interval_chart.h"
#include "tests/train/report/svg_support.h"

namespace folio::experiments {
namespace {

using train::test::count;
using train::test::xml_fault;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

HeatMap map_of(int64_t rows, int64_t columns, std::vector<double> values) {
  return {.title = "t",
          .subtitle = "s",
          .row_label = "r",
          .column_label = "c",
          .panels = {{.title = "p", .rows = rows, .columns = columns, .values = std::move(values)}}};
}

TEST(HeatMap, ColorsFollowValues) {
  const std::string svg = map_of(2, 3, {0.0, 1.0, 1.0, 0.5, 0.0, 1.0}).svg();
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(svg.find("fill-opacity=\"1\" d=\"M1 0h2v1h-2zM2 1h1v1h-1z\""), std::string::npos) << "neighbours are one";
  EXPECT_NE(svg.find("fill-opacity=\"0.5\" d=\"M0 1h1v1h-1z\""), std::string::npos);
  EXPECT_EQ(count(svg, "M0 0h1"), 0U) << "0 is the card";
}

TEST(HeatMap, NegativeValuesHaveTheirOwnHue) {
  const std::string svg = map_of(1, 2, {-2.0, 1.0}).svg();
  EXPECT_NE(svg.find("class=\"s1 fill\" fill-opacity=\"1\" d=\"M0 0h1v1h-1z\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"s0 fill\" fill-opacity=\"0.5\" d=\"M1 0h1v1h-1z\""), std::string::npos);
  EXPECT_NE(svg.find(">-2.000<"), std::string::npos) << "the legend begins at the lowest";
}

TEST(HeatMap, CrossesOutNonFiniteValues) {
  for (const double odd : {kNan, kInfinity, -kInfinity}) {
    const std::string svg = map_of(1, 3, {odd, 1.0, odd}).svg();
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_NE(svg.find("d=\"M0 0l1 1m0-1l-1 1M2 0l1 1m0-1l-1 1\""), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
  EXPECT_EQ(xml_fault(map_of(1, 2, {kNan, kNan}).svg()), "");
  EXPECT_EQ(xml_fault(map_of(1, 2, {0.0, 0.0}).svg()), "");
}

TEST(HeatMap, NamesAreEscaped) {
  HeatMap map = map_of(1, 1, {1.0});
  map.title = map.subtitle = map.row_label = map.column_label = map.panels[0].title = "<&\">";
  map.panels[0].row_names = map.panels[0].column_names = {"<&\">"};
  EXPECT_EQ(xml_fault(map.svg()), "");
}

TEST(HeatMap, PanelsWrapToTheNextRow) {
  HeatMap map = map_of(1, 1, {1.0});
  map.panels.resize(3, map.panels[0]);
  map.panels_per_row = 2;
  const std::string svg = map.svg();
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count(svg, "translate(56.0 90.0)"), 1U);
  EXPECT_EQ(count(svg, "translate(496.0 90.0)"), 1U);
  EXPECT_EQ(count(svg, "translate(56.0 530.0)"), 1U);
}

TEST(HeatMap, RejectsMismatchedPanelSizes) {
  EXPECT_THROW(static_cast<void>(map_of(2, 2, {1.0, 2.0, 3.0}).svg()), core::Error);
  EXPECT_THROW(static_cast<void>(map_of(0, 0, {}).svg()), core::Error);
  HeatMap map = map_of(1, 2, {1.0, 2.0});
  map.panels[0].column_names = {"only one"};
  EXPECT_THROW(static_cast<void>(map.svg()), core::Error);
}

TEST(IntervalChart, ShowsEachMeanWithItsInterval) {
  const IntervalChart chart{.title = "t",
                            .subtitle = "s",
                            .x_label = "x",
                            .rows = {{"with", {1.5, 1.25, 1.75}}, {"exact", {2.0, 2.0, 2.0}}},
                            .references = {{"none", 0.0}}};
  const std::string svg = chart.svg();
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_NE(svg.find(">1.500  [1.250, 1.750]<"), std::string::npos);
  EXPECT_NE(svg.find(">2.000<"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 2U);
  EXPECT_EQ(count(svg, "class=\"line s0\""), 1U) << "a value without an interval has no line";
}

TEST(IntervalChart, AnyValuesAndNamesGiveValidXml) {
  for (const double odd : {kNan, kInfinity, 1e300, 0.0}) {
    const IntervalChart chart{.title = "<&>",
                              .subtitle = "<&>",
                              .x_label = "<&>",
                              .rows = {{"<&>", {odd, odd, odd}}, {"b", {1.0, odd, 2.0}}},
                              .references = {{"<&>", odd}}};
    const std::string svg = chart.svg();
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_EQ(svg.find("\"nan"), std::string::npos);
  }
  EXPECT_EQ(xml_fault(IntervalChart{.title = "", .subtitle = "", .x_label = "", .rows = {}}.svg()), "");
}

}  // namespace
}  // namespace folio::experiments
