// What the engine does, for the page: its last steps, who holds which blocks of the cache, and how fast tokens come.
// Numbers and ids, never text. The engine's thread takes notes while somebody watches.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/engine.h"
#include "infer/server/metrics.h"

namespace folio::infer::server {

class LiveView {
 public:
  /// What happened since the note before.
  struct Note {
    struct Step {
      uint64_t number;
      double seconds;
      StepReport report;
    };
    struct Sequence {
      BranchId id;
      size_t n_prompt;
      size_t n_tokens;
      bool runs;
      std::vector<BlockId> blocks;
    };
    std::vector<Step> steps;
    std::vector<Sequence> sequences;
    EngineStatistics statistics;
    double tokens_per_s;
  };

  /// Any thread: whether somebody watches.
  void set_watched(bool watched) { watched_ = watched; }

  /// The engine's thread, after each step. A note, at most each 200 ms, and one when the engine has nothing more to do.
  [[nodiscard]] std::optional<Note> after_step(Engine& engine);

  /// A note as JSON.
  [[nodiscard]] static std::string json(const Note& note, const Metrics& metrics);

 private:
  using Clock = std::chrono::steady_clock;

  std::atomic<bool> watched_{false};
  bool watches_ = false;
  std::vector<Note::Step> steps_;
  uint64_t n_steps_ = 0;     ///< that were watched
  double step_seconds_ = 0;  ///< of all steps so far
  Clock::time_point last_note_;
  EngineStatistics at_last_note_;
};

}  // namespace folio::infer::server
