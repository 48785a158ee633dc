// Reports the engine's latest steps, KV cache blocks and speed to the web page. Reports contain numbers and IDs, never
// text. Data is collected on the engine's thread between begin() and end().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "infer/engine/async_engine.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

class LiveView : public AsyncEngine::Output, public std::enable_shared_from_this<LiveView> {
 public:
  /// Creates a view. `on_note` receives the latest steps and the engine's state, on the engine's thread, every 200 ms
  /// and once when the engine becomes idle.
  explicit LiveView(std::function<void(Ordered note)> on_note) : on_note_(std::move(on_note)) {}

  void begin(AsyncEngine& engine);
  void end() { is_watched_ = false; }
  bool deliver(Engine& engine, Clock::time_point now) override;

 private:
  std::function<void(Ordered note)> on_note_;
  std::atomic<bool> is_watched_{false};
  // Used only on the engine's thread.
  bool is_delivered_ = false;
  Ordered steps_ = Ordered::array();  ///< steps since the last call of on_note_
  uint64_t n_steps_ = 0;              ///< number of steps observed so far
  double step_seconds_ = 0;           ///< total time of all steps so far
  Clock::time_point last_note_;
  Clock::time_point since_;  ///< begin of the next note's speed: the last note, or the first step after a pause
  bool was_idle_ = true;     ///< the last note was of an idle engine
  EngineStatistics at_last_note_;
};

}  // namespace folio::infer::server
