// An engine on a thread of its own. Other threads submit and cancel requests, which are messages to it; nobody else
// touches the engine while this exists.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::infer {

class AsyncEngine {
 public:
  /// Gets the error with which a request ended (core::Error, or what one of its callbacks threw); null if it has
  /// results.
  using OnEnd = std::function<void(const std::exception_ptr& error)>;

  struct Submission {
    Request request;
    OnEnd on_end;
  };

  /// What is delivered from the engine's thread, when the callbacks of a step and of the requests that ended were
  /// called.
  class Output {
   public:
    using Clock = std::chrono::steady_clock;
    virtual ~Output() = default;
    /// Returns false if it is to be called after the next step, too. Must not throw.
    virtual bool deliver(Engine& engine, Clock::time_point now) = 0;
  };

  /// The engine has to outlive this.
  explicit AsyncEngine(Engine& engine);
  /// Stops, if it has not.
  ~AsyncEngine();
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;

  /// Requests that have not ended end as Interrupted. Those that come later end at once, with an error, on the thread
  /// that submits them.
  void stop();

  /// Adds the requests before the same step. Their callbacks, and then `on_end` once, are called from the engine's
  /// thread: they should be short. They may call submit() and cancel(). `on_end` must not throw. A request that can't
  /// run ends with the error.
  std::vector<RequestId> submit(std::vector<Submission> submissions);
  /// The request ends as Interrupted within a step, unless it has ended, as all have that were there when it stopped.
  void cancel(RequestId id);

  /// Calls `work`, which must not throw, between steps on the engine's thread, after what was submitted before and
  /// before what is submitted later; never once the engine has stopped.
  void call(std::function<void(Engine&)> work);

  /// From the engine's thread: `output` is delivered after this step.
  void deliver_after_step(std::shared_ptr<Output> output) { outputs_.push_back(std::move(output)); }

  /// Checks the backlogs of paused requests.
  void wake() {
    call([](Engine&) {});
  }

  [[nodiscard]] const core::ModelConfig& config() const { return engine_.config(); }
  /// As of the last step.
  [[nodiscard]] EngineStatistics statistics() const;

 private:
  void run();
  void end_if(const std::function<bool(RequestId id)>& ends, const std::exception_ptr& error);

  Engine& engine_;
  std::map<RequestId, OnEnd> live_;               ///< the engine's thread's alone
  std::vector<std::shared_ptr<Output>> outputs_;  ///< likewise
  mutable std::mutex mutex_;                      ///< of what follows
  std::condition_variable wake_;
  std::deque<std::function<void(Engine&)>> messages_;
  bool stops_ = false;
  EngineStatistics statistics_;
  std::thread thread_;  ///< the last member: it uses the others
};

}  // namespace folio::infer
