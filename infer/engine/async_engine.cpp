#include "infer/engine/async_engine.h"

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

RequestId AsyncEngine::submit(Request request, OnEnd on_end) {
  std::unique_lock lock(mutex_);
  const RequestId id = engine_.new_id();
  if (stops_) {
    lock.unlock();
    on_end({.error = std::make_exception_ptr(core::Error("the engine was stopped"))});
    return id;
  }
  messages_.push_back([this, id, request = std::move(request), on_end = std::move(on_end)](Engine& engine) mutable {
    try {
      engine.add(std::move(request), id);
      live_.emplace(id, std::move(on_end));
    } catch (...) {
      on_end({.error = std::current_exception()});
    }
  });
  lock.unlock();
  wake_.notify_one();
  return id;
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

EngineStatistics AsyncEngine::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void AsyncEngine::run() {
  bool stalls = false;  // all requests are paused, or there are none
  for (bool stops = false; !stops;) {
    std::deque<std::function<void(Engine&)>> messages;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stops_ || !messages_.empty() || !(live_.empty() || stalls); });
      messages.swap(messages_);
      stops = stops_;
    }
    for (; !messages.empty(); messages.pop_front()) messages.front()(engine_);
    if (stops) {
      for (const auto& [id, on_end] : live_) engine_.cancel(id);
    } else {
      try {
        stalls = !engine_.step();
      } catch (...) {
        stalls = false;
        fail(std::current_exception());
      }
    }
    hand_out_ended();
    {
      const std::lock_guard lock(mutex_);
      statistics_ = engine_.statistics();
    }
    const auto now = Output::Clock::now();
    std::erase_if(outputs_, [&](const auto& output) { return output->deliver(engine_, now); });
  }
}

// One request's fault ends that request. Any other leaves nothing to go on with.
void AsyncEngine::fail(const std::exception_ptr& error) {
  const auto failed = engine_.failed();
  for (auto live = live_.begin(); live != live_.end();) {
    const auto next = std::next(live);
    if (!failed || live->first == *failed) {
      engine_.drop(live->first);
      end(live, {.error = error});
    }
    live = next;
  }
}

void AsyncEngine::hand_out_ended() {
  for (auto live = live_.begin(); live != live_.end();) {
    const auto next = std::next(live);
    if (engine_.has_ended(live->first)) end(live, {.results = engine_.take_all(live->first)});
    live = next;
  }
}

void AsyncEngine::end(std::map<RequestId, OnEnd>::iterator live, Outcome outcome) {
  const OnEnd on_end = std::move(live->second);
  live_.erase(live);
  on_end(std::move(outcome));
}

}  // namespace folio::infer
