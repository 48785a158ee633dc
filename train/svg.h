// What the pictures share: text for XML, numbers as people read them, axes, and a card that is light or dark as the
// reader's system asks. A picture is one SVG document with its own style sheet, and needs nothing from the page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace folio::train::svg {

inline constexpr double kCharacterWidth = 6.9;  ///< pixels of the labels' font, generously

/// Text for an element or an attribute. What XML has no way to write becomes U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

[[nodiscard]] size_t count_characters(std::string_view text);

/// 0.25, 1500, 20,000, 3M.
[[nodiscard]] std::string tick_text(double value);

/// A measured value, as in a label: losses get the three decimals that people compare.
[[nodiscard]] std::string value_text(double value);

/// The classes of colour i, "s0" to "s5", cycled through: `class="s0"` strokes with it, `class="s0 fill"` fills. They
/// are told apart with any colour vision (after Okabe & Ito 2008).
[[nodiscard]] std::string colour(size_t i);

struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool log = false;
  bool empty = true;  ///< nothing was included yet
  std::vector<double> ticks{};

  /// Whether the axis has a place for the value: finite, and above 0 on a logarithmic axis.
  [[nodiscard]] bool shows(double value) const;
  /// Where the value lies, 0 at the low end and 1 at the high one.
  [[nodiscard]] double place(double value) const;
  /// Widens the axis so that it holds the value. A value that can't be shown is ignored.
  void include(double value);
  /// `whole`: the axis is widened to whole steps (a vertical one, which also has less room for them).
  void set_ticks(bool whole);
};

/// A plot's rectangle, in pixels.
struct Frame {
  double left, top, width, height;
  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

/// Lines across the frame with the values of an axis' ticks: y from the left, x from below.
[[nodiscard]] std::string grid_y(const Frame& frame, const Axis& y);
[[nodiscard]] std::string grid_x(const Frame& frame, const Axis& x);

/// `anchor` is "start", "middle" or "end". The text is escaped here.
[[nodiscard]] std::string text_at(double x, double y, std::string_view text, std::string_view anchor = "start",
                                  std::string_view classes = "");

/// The whole document: a card of that size with a title, a line below it, and `body`, which is SVG already.
/// Classes for the body: card, grid, strong, ref, line, thin, lead, and those of colour().
[[nodiscard]] std::string document(double width, double height, std::string_view title, std::string_view subtitle,
                                   const std::string& body);

}  // namespace folio::train::svg
