// Common parts of SVG pictures: escaped text, formatted numbers, axes, and a background that follows the reader's light
// or dark mode. A picture is one document with its own style sheet.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace folio::train::svg {

inline constexpr double kCharacterWidth = 6.9;  ///< upper estimate for the labels' font, in pixels

/// Escapes text for an element or an attribute. Characters that XML does not allow become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

[[nodiscard]] size_t count_characters(std::string_view text);

/// 0.25, 1500, 20,000, 3M.
[[nodiscard]] std::string tick_text(double value);

/// A measured value, as in a label: losses have three decimals.
[[nodiscard]] std::string value_text(double value);

/// The class of colour i, one of "s0" to "s5": `class="s0"` strokes with it, `class="s0 fill"` fills. People with any
/// colour vision can tell the colours apart (after Okabe & Ito 2008).
[[nodiscard]] std::string colour(size_t i);

struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool log = false;
  bool empty = true;  ///< no value was included yet
  std::vector<double> ticks{};

  /// Whether the axis can show the value: it is finite, and above 0 on a logarithmic axis.
  [[nodiscard]] bool shows(double value) const;
  /// From 0 at the low end to 1 at the high end.
  [[nodiscard]] double place(double value) const;
  /// Widens the axis to the value, if it can be shown.
  void include(double value);
  /// `whole`, for vertical axes: fewer ticks, and unless it is logarithmic the axis ends at ticks.
  void set_ticks(bool whole);
};

/// A plot's rectangle, in pixels.
struct Frame {
  double left, top, width, height;
  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

/// Grid lines across the frame and the labels of the ticks: of y on the left, of x below.
[[nodiscard]] std::string grid_y(const Frame& frame, const Axis& y);
[[nodiscard]] std::string grid_x(const Frame& frame, const Axis& x);

/// `anchor` is "start", "middle" or "end". The text is escaped here.
[[nodiscard]] std::string text_at(double x, double y, std::string_view text, std::string_view anchor = "start",
                                  std::string_view classes = "");

/// The whole document: a background of that size, a title, a line of text below it, and `body`, which is SVG.
/// Classes for the body: card, grid, strong, ref, line, thin, lead, and those of colour().
[[nodiscard]] std::string document(double width, double height, std::string_view title, std::string_view subtitle,
                                   const std::string& body);

}  // namespace folio::train::svg
