#include "train/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/seconds_since.h"

namespace folio::train {
namespace {

std::string clock_string(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

size_t columns_of_terminal() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

// Returns a progress bar such as "[####....] " with at most `room` characters, or "" if `room` is too small.
std::string bar(double done, size_t room) {
  constexpr size_t kNarrowest = 8, kWidest = 24, kFrame = 3;
  if (room < kNarrowest + kFrame) return {};
  const size_t width = std::min(kWidest, room - kFrame);
  const auto filled = static_cast<size_t>(static_cast<double>(width) * done);
  return fmt::format("[{:.<{}}] ", std::string(filled, '#'), width);
}

}  // namespace

Progress::Progress(int64_t first_step, int64_t last_step, LogStyle style)
    : first_step_(first_step),
      last_step_(last_step),
      epochs_(style == LogStyle::Epoch),
      terminal_(::isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() { clear_bar(); }

void Progress::clear_bar() {
  if (bar_shown_) fmt::print("\r\x1b[K");
  bar_shown_ = false;
  std::fflush(stdout);
}

void Progress::print(const std::string& line) {
  clear_bar();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::show(const LogEntry& entry) {
  const double per_step =
      core::seconds_since(start_) / static_cast<double>(std::max<int64_t>(1, entry.step - first_step_));
  const double eta = per_step * static_cast<double>(last_step_ - entry.step);
  if (entry.val_loss) val_loss_ = entry.val_loss;
  const std::string validation = val_loss_ ? fmt::format("  val {:.4f}", *val_loss_) : "";
  const std::string load = entry.expert_load ? fmt::format("  load {:.2f}", *entry.expert_load) : "";
  const std::string share = entry.peak_share ? fmt::format(" ({:.0f}% of peak)", 100.0 * *entry.peak_share) : "";
  const auto numbers = [&](const std::string& more) {
    return fmt::format("step {}/{}  loss {:.4f}{}{}  {:.0f} tokens/s{}  ETA {}", entry.step, last_step_, entry.loss,
                       validation, load, entry.tokens_per_s, more, clock_string(eta));
  };
  if (epochs_) {
    const auto now = std::chrono::steady_clock::now();
    const double since = std::chrono::duration<double>(now - std::exchange(previous_, now)).count();
    print(fmt::format("Epoch {} | Loss {:.3f} | Time {:.3f} | ETA {:.3f}", entry.step,
                      entry.val_loss.value_or(entry.loss), since, eta));
  } else if (terminal_) {
    // Truncate: a line wider than the terminal would wrap and could not be overwritten.
    const size_t columns = columns_of_terminal() - 1;
    const std::string text = numbers("").substr(0, columns);
    const double done = static_cast<double>(entry.step) / static_cast<double>(std::max<int64_t>(1, last_step_));
    fmt::print("\r\x1b[K{}{}", bar(done, columns - text.size()), text);
    std::fflush(stdout);
    bar_shown_ = true;
  }
  if (!epochs_ && (!terminal_ || entry.val_loss)) print(numbers(share));  // on a line that the bar does not erase
  if (!entry.sample) return;
  // Indent samples, so that their lines don't look like log lines, and escape control characters.
  std::istringstream lines(*entry.sample);
  for (std::string line; std::getline(lines, line);) print("  | " + core::printable(line, entry.sample->size()));
}

}  // namespace folio::train
