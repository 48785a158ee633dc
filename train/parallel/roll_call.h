// Who is missing, when ranks wait in vain. A rank that is killed closes its connections, and its neighbours get an
// error; one that hangs is a timeout. Neither says which rank it was. So the first rank that fails rings for all, and a
// thread of each process that can still answer does; who does not is named, by all of them, in one line.
//
//   rank 0 ── sum ──▶ error ── "alarm" ─▶ store ─▶ 1 ✗   2 ✓   3 ✓      "rank 1 is gone: it was last seen at step 12"
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "train/parallel/launch.h"

namespace folio::train::parallel {

class RollCall {
 public:
  /// Both connections are this object's alone. `end`, called in the thread that answers with the line that names the
  /// rank, ends the process: its own main thread has not done so kPatience after another rank failed.
  RollCall(const Launch& launch, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> listener,
           std::function<void(const std::string&)> end);
  /// As leave(), but does not wait for the others.
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  /// Notes where this rank is; a rank in a step may wait for others.
  void note(int64_t step, bool in_step);

  /// What the ranks say of an error that this one has met: "rank 1 is gone: …", "rank 2: no space left …". Tells it to
  /// the others, of which this may be the first; but of one error alone. Takes some seconds at most.
  [[nodiscard]] std::string explain(const std::exception& error);

  /// All ranks have done their work: returns when they have all come here, so that the store stays as long.
  void leave();

 private:
  void listen();
  /// What the listener has heard, or hears soon; else why the store does not say it.
  [[nodiscard]] std::string heard_or_gone();
  [[nodiscard]] std::string store_is_gone() const;
  void await_hearing();
  void stop();
  [[nodiscard]] std::string call_roll(const std::string& why);

  Launch launch_;
  c10::intrusive_ptr<c10d::Store> store_, listener_;
  std::function<void(const std::string&)> end_;
  std::atomic<int64_t> step_{0};
  std::atomic<bool> in_step_{false}, stopped_{false};
  bool told_ = false;
  std::mutex mutex_;
  std::string verdict_;  ///< what the listener has heard, guarded by mutex_; empty: nothing yet
  std::thread thread_;
};

}  // namespace folio::train::parallel
