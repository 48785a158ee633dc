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
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// `work` must not throw. The thread is started for the first one. Once stopped, nothing is done any more.
  void post(std::function<void()> work);
  /// Waits for the piece that is being done, and drops those that wait.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> work_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace folio::infer::server
