// A process as one of several ranks, or alone, from its start to its end: it finds the others, makes sure that they do
// the same work, and tells them if it fails.
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

class Session {
 public:
  /// All ranks come here; a process alone is a rank of one. `end`: see RollCall. Throws core::UsageError where the
  /// flags want another number of ranks, and where one runs another program, and core::Error.
  Session(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end);
  ~Session();

  [[nodiscard]] bool is_alone() const { return launch_.n_ranks == 1; }
  [[nodiscard]] const Launch& launch() const { return launch_; }
  [[nodiscard]] bool is_first() const { return launch_.rank == 0; }
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] RollCall* roll_call() { return roll_call_.get(); }  ///< null where is_alone()

  /// Throws core::UsageError unless all ranks have the same text, with the first line that differs: "rank 1 has another
  /// build than rank 0: …" where `what` is "build".
  void require_same(const std::string& what, const std::string& text);
  /// The text that rank 0 makes, on all ranks.
  [[nodiscard]] std::string from_first(const std::string& key, const std::function<std::string()>& make);

 private:
  Launch launch_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<RollCall> roll_call_;
  std::unique_ptr<World> world_;
};

}  // namespace folio::train::parallel
