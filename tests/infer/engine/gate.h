// Holds a thread back, such as the engine's after a step, until a test lets it go on.
#pragma once

#include <condition_variable>
#include <mutex>

namespace folio::infer::test {

class Gate {
 public:
  void close() { set(false); }
  void open() { set(true); }
  /// For the thread that is held back: waits while the gate is closed.
  void pass() {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    is_waiting_ = false;
  }
  /// Waits until a thread is held back.
  void await_thread() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_waiting_ && !is_open_; });
  }

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    is_open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  bool is_waiting_ = false;
};

}  // namespace folio::infer::test
