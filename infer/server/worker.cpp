#include "infer/server/worker.h"

#include <utility>

namespace folio::infer::server {

void Worker::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    work_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  came_.notify_one();
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  came_.notify_one();
  if (thread_.joinable()) thread_.join();
  work_.clear();
}

void Worker::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return stops_ || !work_.empty(); });
      if (stops_) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

}  // namespace folio::infer::server
