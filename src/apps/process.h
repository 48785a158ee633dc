// The process around a program: its standard streams, and the signals that end it.
#pragma once

#include <string>

namespace folio::apps {

/// To be called first. Opens /dev/null in the place of standard streams that are closed, else the first files that are
/// opened would receive what is printed. Then SIGINT, SIGTERM, SIGHUP and SIGXCPU end the program at once, with an exit
/// code of 128 + signal and without temporary files; and SIGBUS, which the system sends where a mapped file has become
/// shorter, with a line on stderr that begins with `program`, and 1. A SIGHUP that is ignored, as by nohup, stays so.
/// Exceeding the limit of a file's size is an error of the write.
void prepare_process(const std::string& program);

/// From now on these signals are noted, except SIGBUS, and only a second one ends the program at once.
void watch_signals();

/// From now on the first one does, again.
void end_on_signals();

/// Whether there was one since watch_signals().
[[nodiscard]] bool interrupted();

/// The exit code of a program that one ended: 128 + signal, such as 130 for Ctrl-C.
[[nodiscard]] int interrupted_code();

/// Flushes stdout. Throws core::Error if something that was printed could not be written.
void flush_stdout();

}  // namespace folio::apps
