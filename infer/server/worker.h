// A thread that runs the posted functions one after another, in order.
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
  /// The thread calls `tick` after each function, and then ten times a second until `tick` returns false.
  explicit Worker(std::function<bool()> tick) : tick_(std::move(tick)) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Queues `work`, which must not throw. The first call starts the thread. After stop(), drops `work` and
  /// returns false.
  bool post(std::function<void()> work);
  /// Waits for the running function and ends the thread. Without `last`, drops queued functions. Otherwise runs them,
  /// and then `last`.
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
