// Log lines on stderr that are never waited for: what a full pipe, a stopped terminal or a full disk does not accept is
// dropped.
#pragma once

#include <string_view>

namespace folio::infer::server {

class Log {
 public:
  /// `fd` is a pipe, a terminal, a socket or a file; its flags, which other processes may share, are not changed.
  explicit Log(int fd);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes the time and the text as one line of at most PIPE_BUF bytes, which a pipe accepts whole or not at all. Cuts
  /// longer text, and writes control characters as \xNN.
  void line(std::string_view text) const;

 private:
  int fd_;
  int own_;  ///< the same pipe or terminal, opened again as non-blocking; -1: none
  bool is_socket_ = false;
};

/// Opens the pipe or terminal again so that writes never wait. -1: it is neither, or can't be opened.
[[nodiscard]] int reopen_non_blocking(int fd);

}  // namespace folio::infer::server
