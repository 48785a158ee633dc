#include "experiments/exercises/plain_words.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

namespace folio::exercises {
namespace {

using Lines = std::vector<std::string>;

bool begins(const Lines& lines, size_t i, const std::string& with) {
  return i < lines.size() && lines[i].starts_with(with);
}

// Returns the part of a line after the last `mark`, without the suffix `end`.
std::string after_last(const std::string& line, const std::string& mark, const std::string& end = "") {
  std::string rest = line.substr(line.rfind(mark) + mark.size());
  if (rest.ends_with(end)) rest.resize(rest.size() - end.size());
  return rest;
}

// Rounds a number of nine or more characters to six significant digits. Returns any other string unchanged.
std::string shortened(const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.size() < 9 || *end != '\0') return value;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string sentence(const std::string& actual, const std::string& expected) {
  if (shortened(actual) != shortened(expected) && (shortened(actual) != actual || shortened(expected) != expected)) {
    return sentence(shortened(actual), shortened(expected));
  }
  const bool number = actual.find_first_of("{[\"") == std::string::npos;
  return (number ? "The number is " : "The result is ") + actual + ", but has to be " + expected + ".";
}

// Removes GoogleTest's own lines from the front of a failure message and returns their meaning in plain words.
std::string take_values(Lines& lines) {
  size_t n = 1;
  std::string words;
  if (lines.empty()) return words;
  if (lines[0] == "Failed") {
    // A plain FAIL() has no values to translate: only its first line is removed.
  } else if (begins(lines, 0, "Expected equality of these values:")) {
    std::array<std::string, 2> values;
    for (std::string& value : values) {
      if (!begins(lines, n, "  ")) break;
      value = lines[n++].substr(2);
      if (begins(lines, n, "    Which is: ")) value = after_last(lines[n++], "Which is: ");
    }
    words = sentence(values[0], values[1]);
  } else if (begins(lines, 0, "The difference between ") && lines.size() >= 4) {
    n = 4;
    words = sentence(after_last(lines[1], " evaluates to ", ","), after_last(lines[2], " evaluates to ", ", and"));
  } else if (begins(lines, 0, "Value of: ")) {
    n = 3;
    if (lines.size() <= n)
      words = "This has to be " + after_last(lines.back(), "Expected: ") + ": " + lines[0].substr(10);
  } else if (begins(lines, 0, "Expected: (") && lines[0].find("), actual: ") != std::string::npos) {
    const std::string values = after_last(lines[0], "), actual: ");
    const size_t between = values.find(" vs ");
    for (const auto& [sign, comparison] : {std::pair{") < (", "less than "},
                                           {") <= (", "at most "},
                                           {") > (", "more than "},
                                           {") >= (", "at least "},
                                           {") != (", "other than "}}) {
      if (lines[0].find(sign) == std::string::npos) continue;
      words = sentence(values.substr(0, between), comparison + values.substr(between + 4));
    }
  } else if (begins(lines, 0, "Expected: ") && lines[0].find(" throws an exception of type ") != std::string::npos) {
    n = 2;
    words = "A " + after_last(lines[0], " throws an exception of type ", ".") + " has to be thrown.";
  } else {
    return "";
  }
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(std::min(n, lines.size())));
  return words;
}

}  // namespace

std::string in_plain_words(const std::string& message) {
  Lines lines;
  std::istringstream in(message);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string words = take_values(lines);
  bool trace = false;
  for (const std::string& line : lines) {
    if (line == "Google Test trace:") {
      trace = true;
    } else if (!line.empty()) {
      if (!words.empty()) words += "\n";
      words += trace ? line.substr(line.find(": ") + 2) : line;  // removes a trace's FILE:LINE
    }
  }
  return words;
}

}  // namespace folio::exercises
