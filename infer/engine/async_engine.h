// Runs an engine on its own thread. Other threads submit and cancel requests through messages. While an AsyncEngine
// exists, only its thread may access the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::infer {

class AsyncEngine {
 public:
  /// Receives the exception that ended a request: a core::Error, or one from a callback. Null: the request has results,
  /// which may be those of an interrupted request.
  using OnEnd = std::function<void(RequestId id, const std::exception_ptr& error)>;

  struct Submission {
    Request request;
    OnEnd on_end;
  };

  /// Output that the engine's thread delivers after a step and all of its callbacks.
  class Output {
   public:
    using Clock = std::chrono::steady_clock;
    virtual ~Output() = default;
    /// Delivers the output. Returns false to be called again after the next step. Must not throw.
    virtual bool deliver(Engine& engine, Clock::time_point now) = 0;
  };

  /// Starts the thread. `engine` must outlive this object.
  explicit AsyncEngine(Engine& engine);
  /// Calls stop(), which ends all requests as Interrupted.
  ~AsyncEngine();
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;

  /// Ends all requests as Interrupted and joins the thread. Requests submitted later end immediately with an error.
  void stop();

  /// Adds all requests before the same step and returns their ids. The requests' callbacks, and `on_end` at the end of
  /// a request, run on the engine's thread. They should be short and may call submit() and cancel(). `on_end` must not
  /// throw. If a request cannot run, its `on_end` receives the error.
  std::vector<RequestId> submit(std::vector<Submission> submissions);
  /// Ends a request as Interrupted before the next step. Does nothing if it has ended or the engine has stopped.
  void cancel(RequestId id);

  /// Calls `work` on the engine's thread between steps; does nothing after stop(). An exception ends all requests.
  void call(std::function<void(Engine&)> work);

  /// Like call(), but waits until `work` returns. Returns false if the engine has stopped and does not call `work`.
  /// Rethrows an exception of `work`. Must not be called on the engine's thread.
  [[nodiscard]] bool call_and_wait(const std::function<void(Engine&)>& work);

  /// Schedules `output` for delivery after the current step. Must be called on the engine's thread.
  void deliver_after_step(std::shared_ptr<Output> output) { outputs_.push_back(std::move(output)); }

  /// Makes the engine resume paused requests whose backlogs have drained.
  void wake() {
    call([](Engine&) {});
  }

  [[nodiscard]] const core::ModelConfig& config() const { return engine_.config(); }
  /// Returns the statistics as of the last step.
  [[nodiscard]] EngineStatistics statistics() const;
  /// Returns the MachineLost that a step or call() threw, after which all further steps fail; null: none.
  [[nodiscard]] std::exception_ptr loss() const;

 private:
  void run();
  void attempt(const std::function<void()>& work);
  void end_if(const std::function<bool(RequestId id)>& ends, const std::exception_ptr& error);

  Engine& engine_;
  std::map<RequestId, OnEnd> live_;               ///< used by the engine's thread only
  std::vector<std::shared_ptr<Output>> outputs_;  ///< used by the engine's thread only
  mutable std::mutex mutex_;                      ///< guards the members below
  std::condition_variable wake_;
  std::deque<std::function<void(Engine&)>> messages_;
  bool stops_ = false;
  EngineStatistics statistics_;
  std::exception_ptr loss_;
  std::thread thread_;  ///< declared last because it uses the other members
};

}  // namespace folio::infer
