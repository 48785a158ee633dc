#include "train/report/line_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>

#include "tests/train/report/svg_support.h"

namespace folio::train {
namespace {

using test::count;
using test::xml_fault;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

LineChart chart_of(std::vector<LineChart::Point> points) {
  return {.title = "t", .x_label = "x", .y_label = "y", .series = {{"line", std::move(points)}}};
}

// Returns the chart as SVG, which must be well-formed and have only finite coordinates.
std::string svg_of(const LineChart& chart) {
  const std::string svg = chart.svg();
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  return svg;
}

// Returns the numbers that match the first group of a regular expression.
std::vector<double> numbers_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<double> numbers;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    numbers.push_back(std::stod((*i)[1]));
  }
  return numbers;
}

TEST(LineChart, IsOneWellFormedDocument) {
  LineChart chart = chart_of({{0, 4.2}, {100, 2.5}, {200, 1.5}});
  chart.references = {{"5-gram by counting", 1.669}};
  const std::string svg = svg_of(chart);
  EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0U);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(svg.find(">line 1.500<"), std::string::npos) << "a label has the line's last value";
  EXPECT_NE(svg.find(">5-gram by counting 1.669<"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 3U);
}

TEST(LineChart, EscapesNames) {
  const std::string nasty = "a<b>&\"c\"'\x01\xFF</svg>中";
  LineChart chart{.title = nasty,
                  .x_label = nasty,
                  .y_label = nasty,
                  .series = {{nasty, {{1, 1}, {2, 2}}}},
                  .references = {{nasty, 1.5}}};
  const std::string svg = svg_of(chart);
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;'\xEF\xBF\xBD\xEF\xBF\xBD&lt;/svg&gt;中"), std::string::npos);
}

TEST(LineChart, NonFinitePointsLeaveAGap) {
  const std::string svg = svg_of(
      chart_of({{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {4, kInfinity}, {kNan, 2}, {5, 3}, {6, 2.5}, {7, -kInfinity}}));
  EXPECT_EQ(count(svg, "class=\"line s0\""), 3U) << "0 to 1, 3 alone, 5 to 6";
  EXPECT_EQ(count(svg, "<circle"), 5U);
  EXPECT_NE(svg.find(">line 2.500<"), std::string::npos) << "the last finite value";
}

TEST(LineChart, PowersAreStraightLinesOnLogAxes) {
  LineChart chart = chart_of({{1, 3}, {10, 300}, {100, 30000}});
  chart.log_x = chart.log_y = true;
  const std::string svg = svg_of(chart);
  std::smatch at;
  ASSERT_TRUE(std::regex_search(svg, at, std::regex(R"(d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)\")")));
  EXPECT_NEAR(std::stod(at[3]) - std::stod(at[1]), std::stod(at[5]) - std::stod(at[3]), 0.11);
  EXPECT_NEAR(std::stod(at[4]) - std::stod(at[2]), std::stod(at[6]) - std::stod(at[4]), 0.11);
}

TEST(LineChart, ShowsANoteIfThereIsNoData) {
  for (const bool log_x : {false, true}) {
    for (LineChart chart : {LineChart{}, chart_of({}), chart_of({{0, kNan}})}) {
      chart.log_x = log_x;
      chart.references = {{"nowhere", kNan}};
      const std::string svg = svg_of(chart);
      EXPECT_NE(svg.find("no finite values"), std::string::npos);
    }
  }
}

TEST(LineChart, LogAxesSkipNonPositiveValues) {
  LineChart chart = chart_of({{-1, 5}, {0, 4}, {1, 3}, {10, 2}, {1000, 1}});
  chart.log_x = true;
  const std::string svg = svg_of(chart);
  EXPECT_EQ(count(svg, "<circle"), 3U);
  for (const std::string tick : {">1<", ">10<", ">100<", ">1000<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
}

TEST(LineChart, LogAxesBelowADecadeHaveNoTickAtZero) {
  LineChart chart = chart_of({{1, 1.1}, {2, 2.2}, {3, 4.4}});
  chart.log_y = true;
  const std::vector<double> heights = numbers_in(svg_of(chart), "<circle[^>]*cy=\"([^\"]*)\"");
  ASSERT_EQ(heights.size(), 3U);
  EXPECT_NEAR(heights[0] - heights[1], heights[1] - heights[2], 0.15);
}

TEST(LineChart, AnyMagnitudeGivesAFiniteDocument) {
  for (const double size : {1e-300, 1e-12, 1e-3, 1.0, 1e7, 1e15, 1e99, 1e308}) {
    for (const bool log_x : {false, true}) {
      LineChart chart = chart_of({{size, size}, {2 * size, -size}, {2.5 * size, 3 * size}});
      chart.log_x = log_x;
      chart.log_y = log_x;
      EXPECT_LT(svg_of(chart).size(), 10'000U) << size;
    }
  }
}

TEST(LineChart, EqualValuesStillHaveARange) {
  for (const double value : {0.0, 2.0, -3.0, 1e9}) svg_of(chart_of({{5, value}, {5, value}}));
}

TEST(LineChart, ThinningKeepsSpikes) {
  std::vector<LineChart::Point> points(100'000);
  for (size_t i = 0; i < points.size(); ++i) points[i] = {static_cast<double>(i), 1.0};
  points[54'321].y = 9.0;
  const std::string svg = svg_of(chart_of(points));
  EXPECT_LT(svg.size(), 60'000U);
  std::smatch path;
  ASSERT_TRUE(std::regex_search(svg, path, std::regex("class=\"line s0[^\"]*\" d=\"([^\"]*)\"")));
  const std::vector<double> heights = numbers_in(path[1], "[ML][0-9.]+ ([0-9.]+)");
  ASSERT_FALSE(heights.empty());
  EXPECT_LT(std::ranges::min(heights), 150.0) << "pixels from the top";
}

TEST(LineChart, LabelsDoNotOverlap) {
  LineChart chart;
  for (int i = 0; i < 10; ++i) chart.series.push_back({"line " + std::to_string(i), {{0, 0}, {1, 1.0 + 1e-3 * i}}});
  const std::vector<double> heights =
      numbers_in(svg_of(chart), "<text class=\"s[0-9] fill\" x=\"[0-9.]+\" y=\"([0-9.]+)\">line");
  ASSERT_EQ(heights.size(), 10U);
  for (size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 15.0);
}

}  // namespace
}  // namespace folio::train
