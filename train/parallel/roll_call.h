// Names a rank that was killed or hangs. The errors and timeouts of its neighbours do not tell which rank it was, so
// the first rank that fails raises an alarm, which a thread of each living process answers; all name those that do not.
//
//   rank 0 ── sum ──▶ error ── "alarm" ─▶ store ─▶ 1 ✗   2 ✓   3 ✓      "rank 1 is gone: it was last seen at step 12"
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "train/parallel/launch.h"

namespace folio::train::parallel {

class RollCall {
 public:
  /// The connections are used by this object only. `end` ends the process where its main thread has not done so
  /// kPatience after another rank failed; it is called in the answering thread, with the line that names the rank.
  RollCall(const Launch& launch, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> listener,
           std::function<void(const std::string&)> end);
  /// As leave(), but does not wait for the others.
  ~RollCall();

  /// Notes this rank's step, and whether it is in it, where it may wait for others.
  void note(int64_t step, bool in_step);

  /// The ranks' common message for an error of this one: "rank 1 is gone: …", "rank 2: no space left …". Sends it to
  /// the others if this is the first rank that fails. Only for a process's first error. Takes some seconds at most.
  [[nodiscard]] std::string explain(const std::exception& error);

  /// At the end of a run: returns when all ranks have come here, so that the store stays as long.
  void leave();

 private:
  void listen();
  [[nodiscard]] std::string store_is_gone() const;
  void stop();
  [[nodiscard]] std::string call_roll(const std::string& why);

  Launch launch_;
  std::vector<int64_t> others_;  ///< the other ranks
  c10::intrusive_ptr<c10d::Store> store_, listener_;
  std::function<void(const std::string&)> end_;
  std::atomic<int64_t> step_{0};
  std::atomic<bool> in_step_{false}, stopped_{false};
  bool told_ = false;
  std::promise<std::string> heard_;  ///< by the listener
  std::thread thread_;
};

}  // namespace folio::train::parallel
