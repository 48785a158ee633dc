// The layout of --help: at most 100 columns, descriptions in one column, and one line per flag where it fits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio::apps {

struct HelpLine {
  std::string flag;  ///< flag with its value, such as "--min-p P"
  std::string description;
};

struct HelpGroup {
  std::string title;
  std::vector<HelpLine> lines;
};

/// Returns `text` with line breaks between words, so that no line exceeds 100 columns. The first line begins in column
/// `indent`; later lines are indented by as much.
[[nodiscard]] std::string wrapped(std::string_view text, size_t indent = 0);

/// Returns the group's title and lines. If a flag doesn't fit into its column, the description begins on the next line.
[[nodiscard]] std::string help_of(const HelpGroup& group);

/// Returns the description with all notes in one pair of parentheses: `before`, the default, the notes that the
/// description ends with, and `after`. A special value, "; VALUE: meaning" at the end, is a note too: "minimum
/// probability; 0: off" with {"0 to 1"} and the default "0" becomes "minimum probability (0 to 1; default: 0, off)".
[[nodiscard]] std::string with_notes(std::string description, const std::vector<std::string>& before,
                                     const std::string& default_value, const std::vector<std::string>& after);

}  // namespace folio::apps
