#include "apps/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace folio::apps {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kDescriptionColumn = 28;

// Returns the position of a trailing "; VALUE: meaning", where VALUE is one or more numbers, or npos if there is none.
size_t special_value_at(std::string_view text) {
  const size_t at = text.rfind("; ");
  if (at == std::string_view::npos) return at;
  const std::string_view special = text.substr(at + 2);
  const size_t colon = special.find(": ");
  if (colon == std::string_view::npos) return colon;
  return special.substr(0, colon).find_first_not_of("-.0123456789 or") == std::string_view::npos
             ? at
             : std::string_view::npos;
}

// Returns a description with line breaks. Notes in parentheses at the end stay on one line if they fit.
std::string wrapped_description(std::string text) {
  constexpr char kUnbroken = '\x1f';
  const size_t notes = text.ends_with(')') ? text.rfind(" (") : std::string::npos;
  if (notes != std::string::npos && text.size() - notes <= kColumns - kDescriptionColumn) {
    std::replace(text.begin() + static_cast<ptrdiff_t>(notes) + 1, text.end(), ' ', kUnbroken);
  }
  text = wrapped(text, kDescriptionColumn);
  std::ranges::replace(text, kUnbroken, ' ');
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent) {
  std::string lines;
  size_t column = indent;
  for (size_t begin = text.find_first_not_of(' '); begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const bool first = lines.empty();
    if (!first && column + 1 + (end - begin) > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += " ";
      ++column;
    }
    lines += text.substr(begin, end - begin);
    column += end - begin;
    begin = text.find_first_not_of(' ', end);
  }
  return lines;
}

std::string help_of(const HelpGroup& group) {
  std::string text = group.title + ":\n";
  for (const HelpLine& line : group.lines) {
    std::string left = "  " + line.flag;
    if (left.size() + 2 > kDescriptionColumn) {
      text += left + "\n";
      left.clear();
    }
    text += fmt::format("{:{}}{}\n", left, kDescriptionColumn, wrapped_description(line.description));
  }
  return text;
}

std::string with_notes(std::string description, const std::vector<std::string>& before,
                       const std::string& default_value, const std::vector<std::string>& after) {
  std::vector<std::string> notes = before;
  std::string own;
  if (const size_t open = description.rfind(" ("); description.ends_with(')') && open != std::string::npos) {
    own = description.substr(open + 2, description.size() - open - 3);
    description.erase(open);
  }
  std::string special;
  if (const size_t at = special_value_at(description); at != std::string::npos) {
    special = description.substr(at + 2);
    description.erase(at);
  }
  if (!default_value.empty()) {
    std::string note = "default: " + default_value;
    if (special.starts_with(default_value + ": ")) {
      note += ", " + special.substr(default_value.size() + 2);
      special.clear();
    }
    notes.push_back(note);
  }
  if (!own.empty()) notes.push_back(own);
  if (!special.empty()) notes.push_back(special);
  notes.insert(notes.end(), after.begin(), after.end());
  return notes.empty() ? description : fmt::format("{} ({})", description, fmt::join(notes, "; "));
}

}  // namespace folio::apps
