// Blocks the engine's thread after a step until a test lets it continue.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "infer/engine/async_engine.h"

namespace folio::infer::test {

class Gate : public AsyncEngine::Output {
 public:
  static std::shared_ptr<Gate> after_steps_of(AsyncEngine& engine) {
    const auto gate = std::make_shared<Gate>();
    engine.call([&engine, gate](Engine&) { engine.deliver_after_step(gate); });
    return gate;
  }
  void close() { set(false); }
  void open() { set(true); }
  bool deliver(Engine&, Clock::time_point) override {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    is_waiting_ = false;
    return false;
  }
  /// Waits until the engine's thread is blocked.
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
