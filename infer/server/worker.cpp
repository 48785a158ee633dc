#include "infer/server/worker.h"

#include <chrono>
#include <utility>

namespace folio::infer::server {

bool Worker::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return false;
    work_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  came_.notify_one();
  return true;
}

void Worker::stop(std::function<void()> last) {
  {
    const std::lock_guard lock(mutex_);
    if (!last) work_.clear();
    if (last && !stops_) work_.push_back(std::move(last));
    stops_ = true;
  }
  came_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::run() {
  const auto has_work = [this] { return stops_ || !work_.empty(); };
  for (bool ticks = false;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      if (ticks) {
        came_.wait_for(lock, std::chrono::milliseconds(100), has_work);
      } else {
        came_.wait(lock, has_work);
      }
      if (stops_ && work_.empty()) return;
      if (!work_.empty()) {
        work = std::move(work_.front());
        work_.pop_front();
      }
    }
    if (work) work();
    if (tick_) ticks = tick_();
  }
}

}  // namespace folio::infer::server
