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

/// The mesh of this many ranks. Throws core::UsageError that names both numbers if the flags want another number.
[[nodiscard]] MeshShape mesh_of(const MeshFlags& flags, int64_t n_ranks);

class Session {
 public:
  /// All ranks come here; a process alone is a rank of one. `end`: see RollCall. Throws core::Error, also where a rank
  /// runs another program.
  Session(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end);
  ~Session();

  [[nodiscard]] bool is_alone() const { return launch_.n_ranks == 1; }
  [[nodiscard]] const Launch& launch() const { return launch_; }
  [[nodiscard]] bool is_first() const { return launch_.rank == 0; }
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] RollCall* roll_call() { return roll_call_.get(); }  ///< null where is_alone()

  /// See parallel::require_same().
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
