// Prints messages to stderr. Failures, such as a closed or full stderr, are ignored: they must not end the program.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace folio::core {

template <typename... Args>
void print_stderr(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace folio::core
