#include "infer/engine/async_engine.h"

#include <future>
#include <utility>

#include "core/error.h"

namespace folio::infer {

AsyncEngine::AsyncEngine(Engine& engine)
    : engine_(engine), statistics_(engine.statistics()), thread_([this] { run(); }) {}

AsyncEngine::~AsyncEngine() { stop(); }

void AsyncEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<RequestId> AsyncEngine::submit(std::vector<Submission> submissions) {
  std::vector<RequestId> ids;
  std::unique_lock lock(mutex_);
  for (Submission& submission : submissions) {
    const RequestId id = ids.emplace_back(engine_.new_id());
    if (stops_) continue;
    messages_.push_back([this, id, own = std::move(submission)](Engine& engine) mutable {
      try {
        engine.add(std::move(own.request), id);
        live_.emplace(id, std::move(own.on_end));
      } catch (...) {
        own.on_end(id, std::current_exception());
      }
    });
  }
  const bool stopped = stops_;
  lock.unlock();
  for (size_t i = 0; stopped && i < ids.size(); ++i) {
    submissions[i].on_end(ids[i], std::make_exception_ptr(core::Error("the engine was stopped")));
  }
  wake_.notify_one();
  return ids;
}

void AsyncEngine::cancel(RequestId id) {
  call([id](Engine& engine) { engine.cancel(id); });
}

void AsyncEngine::call(std::function<void(Engine&)> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    messages_.push_back(std::move(work));
  }
  wake_.notify_one();
}

bool AsyncEngine::call_and_wait(const std::function<void(Engine&)>& work) {
  auto task = std::make_shared<std::packaged_task<void(Engine&)>>(work);
  auto done = task->get_future();
  call([task = std::move(task)](Engine& engine) { (*task)(engine); });
  try {
    done.get();
    return true;
  } catch (const std::future_error&) {  // the task was destroyed without being called
    return false;
  }
}

EngineStatistics AsyncEngine::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::exception_ptr AsyncEngine::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

void AsyncEngine::run() {
  bool stalls = false;  // true if step() had nothing to run: no requests, or all are paused
  for (bool stops = false; !stops;) {
    std::deque<std::function<void(Engine&)>> messages;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stops_ || !messages_.empty() || !(live_.empty() || stalls); });
      messages.swap(messages_);
      stops = stops_;
    }
    for (; !messages.empty(); messages.pop_front()) attempt([&] { messages.front()(engine_); });
    if (stops) {
      std::vector<RequestId> ids;
      for (const auto& [id, on_end] : live_) ids.push_back(id);
      for (const RequestId id : ids) attempt([&] { engine_.cancel(id); });
    } else {
      stalls = false;
      attempt([&] { stalls = !engine_.step(); });
    }
    end_if([this](RequestId id) { return engine_.has_ended(id); }, nullptr);
    {
      const std::lock_guard lock(mutex_);
      statistics_ = engine_.statistics();
    }
    const auto now = Output::Clock::now();
    std::erase_if(outputs_, [&](const auto& output) { return output->deliver(engine_, now); });
  }
}

// Calls `work`. If that throws an error of one request, ends that request. Any other error ends all requests.
void AsyncEngine::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const MachineLost&) {
    {
      const std::lock_guard lock(mutex_);
      loss_ = std::current_exception();
    }
    end_if([](RequestId) { return true; }, std::current_exception());
  } catch (...) {
    const auto failed = engine_.failed();
    end_if([&](RequestId id) { return !failed || id == *failed; }, std::current_exception());
  }
}

void AsyncEngine::end_if(const std::function<bool(RequestId id)>& ends, const std::exception_ptr& error) {
  for (auto live = live_.begin(); live != live_.end();) {
    const auto next = std::next(live);
    if (ends(live->first)) {
      engine_.drop(live->first);
      auto ended = live_.extract(live);
      ended.mapped()(ended.key(), error);
    }
    live = next;
  }
}

}  // namespace folio::infer
