// A bounded queue that delivers requests' output to a thread other than the engine's. Callbacks add to one event per
// choice, which AsyncEngine delivers after the step. If `limit` bytes are unread, the queue's requests are paused;
// other requests continue. A delivery needs a lock and perhaps a system call, which is too slow for every token of a
// small model. So events that can be merged are delivered when an output begins or ends, else at most every 2 ms.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "infer/engine/async_engine.h"

namespace folio::infer {

struct EventQueueOptions {
  static constexpr size_t kUnlimited = SIZE_MAX;

  size_t limit = size_t{256} << 10U;  ///< unread bytes at which requests are paused; not for beams or a policy
  size_t n_at_once = 256;  ///< maximum requests of the queue in the engine, so that a long list does not delay others
  std::function<void()> on_delivery{};  ///< called when there are new events, usually on the engine's thread
};

/// A queue of events. `Event` must have the members `choice` (an index over the outputs of all requests) and cost()
/// (its size in bytes). If it has append(Event), later events of a choice are merged into earlier ones.
template <typename Event>
class EventQueue : public AsyncEngine::Output, public std::enable_shared_from_this<EventQueue<Event>> {
 public:
  /// Creates an empty queue. `engine` must outlive all calls except pop() and ended().
  explicit EventQueue(AsyncEngine& engine, EventQueueOptions options = {})
      : engine_(engine), options_(std::move(options)), backlog_(options_.limit) {}

  /// Submits the first options.n_at_once requests to the engine together, and one more each time a request ends. May
  /// only be called once. The requests' callbacks may call the queue's functions.
  void submit(std::vector<Request> requests) {
    n_running_ = requests.size();
    std::ranges::move(requests, std::back_inserter(queued_));
    submit_next(options_.n_at_once);
  }

  /// Returns a choice's undelivered event, to which the requests' callbacks add output. If `ends`, all events are
  /// delivered after this step.
  [[nodiscard]] Event& event(size_t choice, bool ends = false) {
    is_urgent_ = is_urgent_ || ends;
    touch();
    return pending_.of(choice);
  }

  /// Returns the delivered events, an empty list if there are none. If a request could not run, throws its error, once,
  /// and cancels the others.
  [[nodiscard]] std::vector<Event> pop() {
    std::unique_lock lock(mutex_);
    if (!delivered_.events.empty() || !error_) return delivered_.take();
    const std::exception_ptr error = std::exchange(error_, nullptr);
    lock.unlock();
    cancel();
    std::rethrow_exception(error);
  }
  /// Marks `n_bytes` of popped events as read, which may resume paused requests.
  void release(size_t n_bytes) {
    if (backlog_.remove(n_bytes)) engine_.wake();
  }
  /// Waits up to `at_most` for events, returns them and marks them as read. If a request could not run, throws its
  /// error, as pop() does.
  std::vector<Event> next(std::chrono::milliseconds at_most) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, at_most, [this] { return !delivered_.events.empty() || error_ || n_running_ == 0; });
    }
    std::vector<Event> events = pop();
    size_t n_bytes = 0;
    for (const Event& event : events) n_bytes += event.cost();
    release(n_bytes);
    return events;
  }
  /// Returns true once every request has ended and all events were popped.
  [[nodiscard]] bool ended() const {
    const std::lock_guard lock(mutex_);
    return n_running_ == 0 && delivered_.events.empty() && !error_;
  }
  /// Ends the requests as Interrupted. Thread-safe.
  void cancel() {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    drop_queued();
    if (n_running_ == 0) return;
    for (const RequestId id : ids_) engine_.cancel(id);
  }

  bool deliver(Engine&, Clock::time_point now) final {
    if (kAppends && !is_urgent_ && now - last_delivery_ < kBetweenDeliveries) return false;
    std::vector<Event> events = pending_.take();
    size_t n_bytes = 0;
    for (const Event& event : events) n_bytes += event.cost();
    backlog_.add(n_bytes);
    {
      const std::lock_guard lock(mutex_);
      if constexpr (kAppends) {
        for (Event& event : events) delivered_.of(event.choice).append(std::move(event));
      } else {
        std::ranges::move(events, std::back_inserter(delivered_.events));
      }
      n_running_ -= std::exchange(n_ended_, 0);
    }
    is_touched_ = is_urgent_ = false;
    last_delivery_ = now;
    notify();
    return true;
  }

 protected:
  mutable std::mutex mutex_{};  ///< guards the state shared with callers, including that of a derived class

 private:
  static constexpr bool kAppends = requires(Event a, Event b) { a.append(std::move(b)); };
  static constexpr std::chrono::milliseconds kBetweenDeliveries{2};

  // A list of events: those not yet delivered, or those delivered but not popped. Merges the events of a choice if
  // Event has append().
  struct Batch {
    std::vector<Event> events{};
    std::vector<size_t> places{};  ///< by choice: 1 + the index of its event in `events`; 0: no event

    Event& of(size_t choice) {
      if (choice >= places.size()) places.resize(choice + 1);
      if (places[choice] == 0) {
        events.push_back({.choice = choice});
        places[choice] = events.size();
      }
      return events[places[choice] - 1];
    }
    std::vector<Event> take() {
      for (const Event& event : events) {
        if (event.choice < places.size()) places[event.choice] = 0;
      }
      return std::exchange(events, {});
    }
  };

  void touch() {
    if (!std::exchange(is_touched_, true)) engine_.deliver_after_step(this->shared_from_this());
  }
  void notify() {
    changed_.notify_one();
    if (options_.on_delivery) options_.on_delivery();
  }
  void drop_queued() {
    n_running_ -= queued_.size();
    queued_.clear();
  }
  void submit_next(size_t most = 1) {
    const auto self = this->shared_from_this();
    std::vector<AsyncEngine::Submission> next;
    std::unique_lock lock(mutex_);
    for (; !queued_.empty() && next.size() < most; queued_.pop_front()) {
      Request& request = queued_.front();
      if (request.options.beams.width == 0 && !request.policy) request.backlog = {self, &backlog_};
      next.push_back({std::move(request), [self](RequestId id, const auto& error) { self->end(id, error); }});
    }
    lock.unlock();
    for (const RequestId id : engine_.submit(std::move(next))) {
      lock.lock();
      toggle(id);
      if (is_cancelled_) engine_.cancel(id);
      lock.unlock();
    }
  }
  // Called twice for each request, after its submission and at its end, in either order. The first call adds `id` to
  // ids_, the second removes it.
  void toggle(RequestId id) {
    if (ids_.erase(id) == 0) ids_.insert(id);
  }
  // Handles the end of a request. `error` is null unless the request could not run.
  void end(RequestId id, const std::exception_ptr& error) {
    std::unique_lock lock(mutex_);
    toggle(id);
    if (error) {  // if the engine has stopped, this runs on the submitting thread
      if (!error_) error_ = error;
      --n_running_;
      drop_queued();
      lock.unlock();
      return notify();
    }
    lock.unlock();
    ++n_ended_;
    is_urgent_ = true;
    touch();
    submit_next();
  }

  AsyncEngine& engine_;
  EventQueueOptions options_;
  Backlog backlog_;

  // Used by the engine's thread only.
  Batch pending_{};
  bool is_touched_ = false;
  bool is_urgent_ = true;  ///< true if an output begins or ends: deliver after this step
  size_t n_ended_ = 0;     ///< ended requests whose end was not delivered yet
  Clock::time_point last_delivery_{};

  std::condition_variable changed_{};
  Batch delivered_{};
  std::exception_ptr error_{};
  std::deque<Request> queued_{};  ///< requests not submitted to the engine yet
  std::set<RequestId> ids_{};     ///< requests that were submitted and have not ended
  size_t n_running_ = 0;          ///< requests that have not ended, including queued_
  bool is_cancelled_ = false;
};

}  // namespace folio::infer
