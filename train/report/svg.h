// Building blocks for SVG charts: escaped text, formatted numbers, axes, and a background that follows the viewer's
// light or dark mode. Each chart is one document with its own style sheet.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace folio::train::svg {

inline constexpr double kCharacterWidth = 6.9;  ///< upper estimate for the label font, in pixels

/// Escapes text for an XML element or attribute. Characters not allowed in XML become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

[[nodiscard]] size_t count_characters(std::string_view text);

/// Formats an axis tick, such as 0.25, 1500, 20,000 or 3M.
[[nodiscard]] std::string tick_text(double value);

/// Formats a measured value for a label: three decimals from 0.1 to 100, else four significant digits.
[[nodiscard]] std::string value_text(double value);

/// Returns the CSS class of color i, "s0" to "s5": `class="s0"` strokes with it, `class="s0 fill"` fills. The palette
/// is safe for color-blind viewers (after Okabe & Ito 2008).
[[nodiscard]] std::string colour(size_t i);

struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool log = false;
  bool empty = true;  ///< true until a value is included
  std::vector<double> ticks{};

  /// Returns true if the axis can show the value: finite, and positive on a logarithmic axis.
  [[nodiscard]] bool shows(double value) const;
  /// Returns the value's position on the axis, from 0 (low) to 1 (high).
  [[nodiscard]] double place(double value) const;
  /// Extends the axis to the value, if it can be shown.
  void include(double value);
  /// Computes the ticks. With `whole`, meant for vertical axes, uses fewer ticks, and extends a linear axis so that it
  /// begins and ends at a tick.
  void set_ticks(bool whole);
};

/// The rectangle of a plot, in pixels.
struct Frame {
  double left, top, width, height;
  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

/// Returns the horizontal grid lines of a frame as SVG, with tick labels on the left. grid_x() returns the vertical
/// grid lines, with tick labels below.
[[nodiscard]] std::string grid_y(const Frame& frame, const Axis& y);
[[nodiscard]] std::string grid_x(const Frame& frame, const Axis& x);

/// Returns an SVG text element with escaped text. `anchor` is "start", "middle" or "end"; `classes` are CSS classes.
[[nodiscard]] std::string text_at(double x, double y, std::string_view text, std::string_view anchor = "start",
                                  std::string_view classes = "");

/// Returns an SVG rectangle filled with color `i` of colour(). `x` and `y` are its top left corner, in pixels.
[[nodiscard]] std::string bar(size_t i, double x, double y, double width, double height);

/// Returns an SVG document: a background of this size in pixels, a title, a subtitle and `body`, which is SVG. The body
/// can use the CSS classes card, grid, strong, ref, line, thin, lead, and those of colour().
[[nodiscard]] std::string document(double width, double height, std::string_view title, std::string_view subtitle,
                                   const std::string& body);

}  // namespace folio::train::svg
