// Writes log lines without ever blocking: a line that a full pipe, a stopped terminal or a full disk doesn't accept is
// dropped.
#pragma once

#include <string_view>

namespace folio::infer::server {

class Log {
 public:
  /// Writes to `fd`, a pipe, terminal, socket or file. Other processes may share its flags, so they are not changed.
  explicit Log(int fd);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes the time and `text` as one line of at most PIPE_BUF bytes, which a pipe accepts atomically. Longer text is
  /// cut, and control characters are written as \xNN.
  void line(std::string_view text) const;

 private:
  int fd_;
  int own_;  ///< fd_'s pipe or terminal, reopened as non-blocking; -1: not reopened
  bool is_socket_ = false;
};

/// Reopens a pipe or terminal so that writes never block, and returns the new descriptor. Returns -1 if `fd` is neither
/// a pipe nor a terminal, or can't be opened.
[[nodiscard]] int reopen_non_blocking(int fd);

}  // namespace folio::infer::server
