#include "apps/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/temporary_path.h"

namespace folio::apps {
namespace {

constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGXCPU};

// Global because signal handlers use them.
std::atomic<int> n_signals{0};
std::atomic<int> last_signal{SIGINT};
std::atomic<bool> stdout_is_closed{false};
std::array<char, 32> program_name{};

void end_at_once(int signal) {
  core::remove_temporary_paths();
  ::_exit(128 + signal);
}

// Handles SIGQUIT (Ctrl-\): removes temporary files, then dumps core, which helps to debug a program that hangs.
void dump_core(int signal) {
  core::remove_temporary_paths();
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

void note_signal(int signal) {
  last_signal = signal;
  if (n_signals.fetch_add(1) > 0) end_at_once(signal);
}

void end_on_lost_file(int /*signal*/, siginfo_t* info, void* /*context*/) {
  core::remove_temporary_paths();
  const char* path = core::mapped_path_at(info->si_addr);
  for (const char* part : {static_cast<const char*>(program_name.data()), ": ", path == nullptr ? "a file" : path,
                           " became shorter or unreadable while in use; restore it, and replace model files by "
                           "renaming, not by writing in place\n"}) {
    static_cast<void>(!::write(STDERR_FILENO, part, std::strlen(part)));
  }
  ::_exit(1);
}

void note_closed_stdout(int signal) {
  if (n_signals.load() == 0) last_signal = signal;
  stdout_is_closed = true;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  if ((signal == SIGHUP || signal == SIGPIPE) && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

void on_ending_signals(void (*handler)(int)) {
  for (const int signal : kEndingSignals) handle(signal, handler);
}

}  // namespace

void prepare_process(const std::string& program) {
  // open() and dup() return the lowest free descriptor, so this opens those of 0 to 2 that are closed.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::dup(fd)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    break;
  }
  program.copy(program_name.data(), program_name.size() - 1);
  on_ending_signals(end_at_once);
  std::signal(SIGQUIT, dump_core);
  std::signal(SIGXFSZ, SIG_IGN);  // makes a write beyond the file size limit fail with EFBIG
  struct sigaction action {};
  action.sa_sigaction = end_on_lost_file;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void watch_signals() {
  n_signals = 0;
  on_ending_signals(note_signal);
}

void watch_stdout() { handle(SIGPIPE, note_closed_stdout); }

void end_on_signals() {
  n_signals = 1;
  on_ending_signals(end_at_once);
}

bool interrupted() { return n_signals.load() > 0 || stdout_is_closed.load(); }

int interrupted_code() { return 128 + last_signal.load(); }

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  core::fail("cannot write to stdout: {}", errno == 0 ? "not all of the output was written" : std::strerror(errno));
}

}  // namespace folio::apps
