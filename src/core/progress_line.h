// A line on stderr that a program rewrites while it works.
#pragma once

#include <unistd.h>

#include "core/print_stderr.h"

namespace folio::core {

/// Shows nothing unless stderr is a terminal. The destructor erases the line, so that an error starts on an empty one.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  template <typename... Args>
  void show(fmt::format_string<Args...> format, Args&&... args) {
    if (!terminal_) return;
    print_stderr("\r\x1b[K{}", fmt::format(format, std::forward<Args>(args)...));
    is_shown_ = true;
  }
  void erase() {
    if (std::exchange(is_shown_, false)) print_stderr("\r\x1b[K");
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
};

}  // namespace folio::core
