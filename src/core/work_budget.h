// A budget for the work that a request may cause before it runs, such as rendering its template, tokenizing, or
// compiling its schema. Work is counted in steps (a state, an edge, a few bytes) instead of time, so a request is
// accepted or rejected in the same way on every machine. Copies share one budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"

namespace folio::core {

inline constexpr uint64_t kDefaultWork = 10'000'000;  ///< steps that a request may spend

/// Base class of the exceptions that WorkBudget::spend() throws to stop work.
class WorkStopped : public Error {
 public:
  using Error::Error;
  /// Returns true if code that adds a location to errors must rethrow this exception unchanged.
  [[nodiscard]] virtual bool is_complete() const { return true; }
};

/// Thrown if a budget is exhausted: "'PLACE' needs more than N steps of work; make it smaller".
class TooMuchWork final : public WorkStopped {
 public:
  TooMuchWork(std::string place, uint64_t limit);
  /// Returns the location of the work, such as "tools[0].function.parameters.properties.a.pattern"; empty if unknown.
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] bool is_complete() const override { return !place_.empty(); }

 private:
  std::string place_;
};

class WorkCancelled final : public WorkStopped {
 public:
  WorkCancelled() : WorkStopped("the work was cancelled") {}
};

class WorkBudget {
 private:
  struct State {
    uint64_t left, limit;
    std::atomic<bool> cancelled = false;
    std::string place{};
  };

 public:
  explicit WorkBudget(uint64_t limit = kDefaultWork) : state_(new State{.left = limit, .limit = limit}) {}

  /// Spends steps. Throws TooMuchWork beyond the limit, and WorkCancelled after cancel().
  void spend(uint64_t steps) const {
    if (steps > state_->left || state_->cancelled.load(std::memory_order_relaxed)) stop();
    state_->left -= steps;
  }
  [[nodiscard]] uint64_t limit() const { return state_->limit; }
  [[nodiscard]] uint64_t spent() const { return state_->limit - state_->left; }
  /// Makes later calls of spend() throw WorkCancelled. May be called from any thread.
  void cancel() const { state_->cancelled = true; }

  /// Appends `part` to the location in TooMuchWork's message, for as long as the object exists.
  class [[nodiscard]] Place {
   public:
    Place(const WorkBudget& budget, std::string_view part) : state_(budget.state_), size_(state_->place.size()) {
      state_->place += part;
    }
    ~Place() { state_->place.resize(size_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    std::shared_ptr<State> state_;
    size_t size_;
  };
  [[nodiscard]] bool has_place() const { return !state_->place.empty(); }

 private:
  [[noreturn]] void stop() const;

  std::shared_ptr<State> state_;
};

}  // namespace folio::core
