// Finds the rank that was killed or hangs. Its neighbors' errors and timeouts do not identify it, so the first rank
// that fails raises an alarm. A thread of each live process answers; ranks that do not answer are reported as lost.
//
//   rank 0 ── sum ──▶ error ── "alarm" ─▶ store ─▶ 1 ✗   2 ✓   3 ✓      "rank 1 is gone (last seen at step 12)"
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "train/parallel/launch.h"

namespace folio::train::parallel {

class RollCall {
 public:
  /// Starts the listener thread. `store` and `listener` must be separate connections that nothing else uses. If another
  /// rank has failed and the main thread does not end soon, the listener calls `end` with the error message; `end` must
  /// end the process.
  RollCall(const Launch& launch, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> listener,
           std::function<void(const std::string&)> end);
  /// Stops the listener thread. Does not wait for other ranks, unlike leave().
  ~RollCall();

  /// Records this rank's current step. `in_step` is true within the step, where the rank may wait for others.
  void note(int64_t step, bool in_step);

  /// For RankLost, returns the cause, such as "rank 1 is gone: …" or "rank 2: no space left …", which the first rank
  /// that fails sends to the others. For other errors, and after the first call, returns the first line of `error`'s
  /// message. Can take seconds.
  [[nodiscard]] std::string explain(const std::exception& error);

  /// Must be called at the end of a run. Waits until the other ranks call it, up to 12 s for each: they need the store,
  /// which ends with the process that runs it.
  void leave();

 private:
  void listen();
  [[nodiscard]] std::string store_is_gone() const;
  void stop();
  [[nodiscard]] std::string call_roll(const std::string& why);

  Launch launch_;
  std::vector<int64_t> others_;  ///< all ranks except this one
  c10::intrusive_ptr<c10d::Store> store_, listener_;
  std::function<void(const std::string&)> end_;
  std::atomic<int64_t> step_{0};
  std::atomic<bool> in_step_{false}, stopped_{false};
  bool explained_ = false;
  std::promise<std::string> verdict_;  ///< set by the listener thread to the first failing rank's report
  std::thread thread_;
};

}  // namespace folio::train::parallel
