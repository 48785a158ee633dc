// Helpers for tests of charts: checks that an SVG is valid XML, and counts its elements.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace folio::train::test {

/// Checks the rules of XML that the SVG writer could break. Returns the first violation, or an empty string.
inline std::string xml_fault(const std::string& text) {
  static const std::regex kTag(R"(<(/?)([a-z]+)((?: [a-zA-Z:-]+="[^"<&]*(?:&(?:amp|lt|gt|quot);[^"<&]*)*")*)(/?)>)");
  static const std::regex kText(R"((?:[^<>&]|&(?:amp|lt|gt|quot);)*)");
  std::vector<std::string> open;
  auto at = text.cbegin();
  for (std::smatch tag; std::regex_search(at, text.cend(), tag, kTag); at = tag[0].second) {
    const std::string between(at, tag[0].first);
    if (!std::regex_match(between, kText)) return "bad text: " + between;
    if (open.empty() && at != text.cbegin()) return "something after the root";
    if (tag[1].length() > 0) {
      if (open.back() != tag[2]) return "</" + tag[2].str() + "> closes <" + open.back() + ">";
      open.pop_back();
    } else if (tag[4].length() == 0) {
      open.push_back(tag[2]);
    }
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  const std::string rest(at, text.cend());
  return rest == "\n" ? "" : "something after the root: " + rest;
}

inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace folio::train::test
