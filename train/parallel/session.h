// A process as one of several ranks, from its start to its end: it finds the others, makes sure that they do the same
// work, and tells them if it fails.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "train/parallel/launch.h"
#include "train/parallel/roll_call.h"
#include "train/parallel/world.h"

namespace folio::train::parallel {

/// How many ranks there are in each dimension, as flags say it. 0: what is left.
struct MeshFlags {
  int64_t data = 0, tensor = 1, pipeline = 1, context = 1, expert = 1;
  int64_t pipeline_chunks = 1;
  int64_t zero = 0;
  double timeout = 600.0;  ///< seconds that a rank waits for another
};

/// The mesh of this many ranks. Throws core::UsageError that names both numbers if the flags want another number.
[[nodiscard]] MeshShape mesh_of(const MeshFlags& flags, int64_t n_ranks);

class Session {
 public:
  /// All ranks come here. `end`: see RollCall. Throws core::Error, also where a rank runs another program.
  Session(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end);
  ~Session();

  [[nodiscard]] const Launch& launch() const { return launch_; }
  [[nodiscard]] bool is_first() const { return launch_.rank == 0; }
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] RollCall& roll_call() { return *roll_call_; }

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
