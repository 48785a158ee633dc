// A request of an AsyncEngine whose text is waited for.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "infer/engine/async_engine.h"

namespace folio::infer::test {

class TextStream {
 public:
  TextStream(AsyncEngine& engine, Request request) : engine_(engine) {
    request.on_text = [this](size_t, std::string_view text) {
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
  /// Cancels what has not ended, and waits for its end.
  ~TextStream() {
    cancel();
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return outcome_.has_value(); });
  }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  /// Waits for the text that comes next; none when the request has ended. Throws the error that it ended with.
  [[nodiscard]] std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return !text_.empty() || outcome_.has_value(); });
    if (!text_.empty()) return std::exchange(text_, {});
    if (outcome_->error) std::rethrow_exception(outcome_->error);
    return std::nullopt;
  }
  /// After next() has returned none.
  [[nodiscard]] const GenerateResult& result() const {
    const std::lock_guard lock(mutex_);
    core::require(outcome_ && !outcome_->error, "the request has no result");
    return outcome_->results.front();
  }
  void cancel() { engine_.cancel(id_); }

 private:
  AsyncEngine& engine_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::string text_;
  std::optional<Outcome> outcome_;
  RequestId id_;
};

}  // namespace folio::infer::test
