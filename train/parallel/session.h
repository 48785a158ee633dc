// One process of a run. It connects to the other ranks, if any, checks that all run the same program with the same
// settings, and notifies the others if it fails.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "train/config/train_config.h"
#include "train/parallel/launch.h"
#include "train/parallel/roll_call.h"
#include "train/parallel/world.h"

namespace folio::train::parallel {

class RankSession {
 public:
  /// Connects all ranks, which must all call it; a single process is one rank. If another rank has failed and this
  /// process does not end soon, a thread calls `end` with the error message; `end` must end the process. Throws
  /// core::UsageError if the flags require a different number of ranks or if ranks run different builds, and
  /// core::Error for other failures.
  RankSession(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end);
  ~RankSession();

  [[nodiscard]] bool is_alone() const { return launch_.n_ranks == 1; }
  [[nodiscard]] const Launch& launch() const { return launch_; }
  [[nodiscard]] bool is_first() const { return launch_.rank == 0; }
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] RollCall* roll_call() { return roll_call_.get(); }  ///< null if is_alone()

  /// Throws core::UsageError unless all ranks pass the same text. The message has the first line that differs, such as
  /// "rank 1 differs from rank 0 in build: …" if `what` is "build".
  void require_same(const std::string& what, const std::string& text);
  /// Calls make() on rank 0 and returns the result on all ranks, which get it from the store under `key`.
  [[nodiscard]] std::string from_first(const std::string& key, const std::function<std::string()>& make);

 private:
  Launch launch_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<RollCall> roll_call_;
  std::unique_ptr<World> world_;
};

}  // namespace folio::train::parallel
