#include "infer/engine/async_engine.h"

#include <utility>

#include "core/error.h"

namespace folio::infer {

AsyncEngine::AsyncEngine(Engine& engine, std::function<void(Engine&)> after_step)
    : engine_(engine),
      after_step_(std::move(after_step)),
      statistics_(engine.statistics()),
      thread_([this] { run(); }) {}

AsyncEngine::~AsyncEngine() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

AsyncEngine::Id AsyncEngine::submit(Request request, OnEnd on_end, std::optional<Id> same_prompt) {
  Id id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    messages_.push_back(
        {.id = id, .request = std::move(request), .on_end = std::move(on_end), .same_prompt = same_prompt});
  }
  wake_.notify_one();
  return id;
}

void AsyncEngine::cancel(Id id) {
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back({.id = id});
  }
  wake_.notify_one();
}

void AsyncEngine::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

EngineStatistics AsyncEngine::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void AsyncEngine::run() {
  for (bool stops = false; !stops;) {
    std::deque<Message> messages;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stops_ || woken_ || !messages_.empty() || !live_.empty(); });
      woken_ = false;
      messages.swap(messages_);
      stops = stops_;
    }
    for (Message& message : messages) take(std::move(message));
    if (stops) {
      for (const auto& [id, live] : live_) engine_.cancel(id);
    } else {
      try {
        engine_.step();
      } catch (...) {
        fail(std::current_exception());
      }
    }
    hand_out_ended();
    {
      const std::lock_guard lock(mutex_);
      statistics_ = engine_.statistics();
    }
    if (after_step_) after_step_(engine_);
  }
}

std::optional<RequestId> AsyncEngine::request_of(Id id) const {
  for (const auto& [request, live] : live_) {
    if (live.id == id) return request;
  }
  return std::nullopt;
}

void AsyncEngine::take(Message message) {
  if (!message.request) {
    if (const auto request = request_of(message.id)) engine_.cancel(*request);
    return;
  }
  try {
    const RequestId id =
        engine_.add(std::move(*message.request), message.same_prompt ? request_of(*message.same_prompt) : std::nullopt);
    live_.emplace(id, Live{.id = message.id, .on_end = std::move(message.on_end)});
  } catch (...) {
    message.on_end({.error = std::current_exception()});
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
    if (engine_.has_ended(live->first)) end(live, {.result = engine_.take(live->first)});
    live = next;
  }
}

void AsyncEngine::end(std::map<RequestId, Live>::iterator live, Outcome outcome) {
  const OnEnd on_end = std::move(live->second.on_end);
  live_.erase(live);
  on_end(std::move(outcome));
}

TextStream::TextStream(AsyncEngine& engine, Request request) : engine_(engine) {
  request.on_text = [this](std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_ += text;
    came_.notify_one();
  };
  id_ = engine.submit(std::move(request), [this](Outcome outcome) {
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    came_.notify_one();
  });
}

TextStream::~TextStream() {
  cancel();
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return outcome_.has_value(); });
}

std::optional<std::string> TextStream::next() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return !text_.empty() || outcome_.has_value(); });
  if (!text_.empty()) return std::exchange(text_, {});
  if (outcome_->error) std::rethrow_exception(outcome_->error);
  return std::nullopt;
}

const GenerateResult& TextStream::result() const {
  const std::lock_guard lock(mutex_);
  core::require(outcome_ && !outcome_->error, "the request has no result");
  return outcome_->result;
}

}  // namespace folio::infer
