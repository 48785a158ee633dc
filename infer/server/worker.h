// A thread that does one piece of work after the other, in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace folio::infer::server {

class Worker {
 public:
  Worker() = default;
  /// Calls `tick` after each piece, and again soon, ten times a second, while it returns true.
  explicit Worker(std::function<bool()> tick) : tick_(std::move(tick)) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// `work` must not throw. The thread is started for the first one. Returns false, and does nothing, once stopped.
  bool post(std::function<void()> work);
  /// Waits for the piece that is being done, and drops those that wait; with `last` it does them first, and then
  /// `last`.
  void stop(std::function<void()> last = {});

 private:
  void run();

  std::function<bool()> tick_{};
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> work_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace folio::infer::server
