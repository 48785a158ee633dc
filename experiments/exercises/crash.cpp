#include "experiments/exercises/crash.h"

#include <algorithm>
#include <csignal>
#include <regex>

namespace folio::exercises {
namespace {

constexpr const char* kBelowZero =
    "A size_t has no numbers below 0: 0 - 1 is 18446744073709551615. So i >= 0 always holds, and a difference of two "
    "of them has to be positive.";

std::string found(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

// Returns where a sanitizer found the crash: " at FILE:LINE" in the reader's code or a test, " in FUNCTION", or "".
std::string place(const std::string& report) {
  static const std::regex frame(R"(#\d+ 0x\w+ in .*?experiments/exercises/((properties/)?[\w/]+\.(?:cpp|h):\d+))");
  std::string of_property;
  for (std::sregex_iterator it(report.begin(), report.end(), frame), end; it != end; ++it) {
    if ((*it)[2].length() == 0) return " at " + (*it)[1].str();
    if (of_property.empty()) of_property = " at " + (*it)[1].str();
  }
  if (!of_property.empty()) return of_property;
  const std::string named = std::regex_replace(report, std::regex(R"(\(anonymous namespace\)::)"), "");
  const std::string function = found(named, R"(#\d+ 0x\w+ in folio::exercises::(\w+(?:::\w+)*)\()");
  return function.empty() ? "" : " in " + function;
}

// Describes an access past an array's bounds, given the sanitizer's report.
std::string outside(const std::string& report) {
  const bool writes = report.find("WRITE of size") != std::string::npos;
  const std::string access = found(report, R"((?:READ|WRITE) of size (\d+))");
  std::smatch region;
  std::string size;
  bool before = false;
  if (std::regex_search(
          report, region,
          std::regex(R"(is located (\d+) bytes (to the right of|to the left of|after|before) (\d+)-byte)"))) {
    before = region[2] == "to the left of" || region[2] == "before";
    const auto bytes = std::stoull(region[3]);
    const auto each = access.empty() ? 0 : std::stoull(access);
    if (each > 0 && bytes % each == 0) size = ", which has " + std::to_string(bytes / each) + " numbers,";
  }
  return std::string("Your code ") + (writes ? "writes" : "reads") +
         (before ? " before the beginning" : " past the end") + " of an array" + size + place(report) + ".\n" +
         (before
              ? std::string("The first number has the index 0. ") + kBelowZero
              : "The numbers of an array of n have the indices 0 to n - 1. Does a loop run to <= n instead of < n, or "
                "does a row begin in the wrong place?");
}

}  // namespace

size_t report_begins(const std::string& errors) {
  const size_t ub = errors.find(": runtime error: ");
  const size_t line = ub == std::string::npos ? ub : errors.rfind('\n', ub) + 1;  // npos + 1 = 0: the first line
  size_t asan = errors.find("AddressSanitizer:");
  if (asan != std::string::npos) asan = std::min(asan, errors.find("================"));
  return std::min({line, asan, errors.size()});
}

std::string crash_in_words(const std::string& errors, int signal) {
  if (signal == SIGALRM) {
    return std::string("The test ran for a minute: a loop of your code does not end.\n") + kBelowZero;
  }
  const std::string undefined = found(errors, R"(runtime error: (.+))");
  if (!undefined.empty()) {
    return "Your code does what C++ leaves undefined: " + undefined + ", at " +
           found(errors, R"((?:experiments/exercises/)?(\S+:\d+):\d+: runtime error)") + ".";
  }
  const std::string kind = found(errors, R"(SUMMARY: AddressSanitizer: ([\w-]+))");
  const std::string assertion = found(errors, R"((Assertion '.+' failed))");
  if (!assertion.empty()) {
    return "A vector or span was asked for what it does not have" + place(errors) + ": " + assertion + ".\n" +
           "Is the index past the end, as i + 1 is for the last i? " + kBelowZero;
  }
  if (kind.find("buffer-overflow") != std::string::npos || kind == "container-overflow") return outside(errors);
  if (kind == "stack-overflow") return "Your code calls itself without end" + place(errors) + ".";
  if (kind.find("use-after") != std::string::npos) {
    return "Your code uses memory that is no longer its own" + place(errors) +
           ".\nA pointer, reference or span into a vector ends when the vector grows, and one to a local variable when "
           "its function returns.";
  }
  if (kind == "allocation-size-too-big" || kind == "out-of-memory") {
    return "Your code asks for more memory than there is" + place(errors) + ".\nDoes a loop that appends never end? " +
           kBelowZero;
  }
  if (kind == "SEGV" || kind == "BUS" || kind == "unknown-crash") {
    return "Your code reaches for memory that belongs to no array" + place(errors) +
           ": an index is far outside, or a pointer is null.\n" + kBelowZero;
  }
  if (!kind.empty()) return "Your code breaks a rule of memory (" + kind + ")" + place(errors) + ".";
  return "The program ended in this test" + (signal == 0 ? std::string() : " (signal " + std::to_string(signal) + ")") +
         ".";
}

}  // namespace folio::exercises
