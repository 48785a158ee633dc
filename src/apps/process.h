// A program's process: its standard streams, and the signals that end it.
#pragma once

#include <string>

namespace folio::apps {

/// Must be called first. Opens /dev/null for closed standard streams, so that no other file receives their output.
/// SIGINT, SIGTERM, SIGHUP and SIGXCPU then remove temporary files and exit with 128 + signal. SIGBUS (a mapped file
/// was truncated) prints one line that begins with `program` and exits with 1. An ignored SIGHUP (nohup) stays ignored.
/// A write beyond the file size limit fails instead of raising SIGXFSZ.
void prepare_process(const std::string& program);

/// From now on, the first SIGINT, SIGTERM, SIGHUP or SIGXCPU only sets interrupted(). A second one exits at once.
void watch_signals();

/// From now on, output to a pipe without a reader only sets interrupted(), so that no work is lost. Has no effect if
/// SIGPIPE is ignored.
void watch_stdout();

/// Reverts watch_signals(): the next signal ends the process immediately.
void end_on_signals();

/// Returns true if a watched signal was received since watch_signals().
[[nodiscard]] bool interrupted();

/// Returns the exit code for the last watched signal: 128 + signal, such as 130 for Ctrl-C; 130 if there was none.
[[nodiscard]] int interrupted_code();

/// Flushes stdout. Throws core::Error if not all output could be written.
void flush_stdout();

}  // namespace folio::apps
