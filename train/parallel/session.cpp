#include "train/parallel/session.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/error.h"
#include "core/version.h"

namespace folio::train::parallel {

MeshShape mesh_of(const MeshFlags& flags, int64_t n_ranks) {
  MeshShape shape;
  shape[Axis::Tensor] = flags.tensor;
  shape[Axis::Pipeline] = flags.pipeline;
  shape[Axis::Context] = flags.context;
  shape[Axis::Expert] = flags.expert;
  shape[Axis::Data] = flags.data > 0 ? flags.data : std::max<int64_t>(1, n_ranks / shape.n_ranks());
  if (shape.n_ranks() == n_ranks) return shape;
  throw core::UsageError(
      n_ranks == 1
          ? fmt::format("a mesh of {} has {} ranks, and this is one process; start it with torchrun --no-python "
                        "--nproc-per-node {}",
                        to_string(shape), shape.n_ranks(), shape.n_ranks())
          : fmt::format("a mesh of {} has {} ranks, but {} were started", to_string(shape), shape.n_ranks(), n_ranks));
}

Session::Session(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end)
    : launch_(launch), timeout_(static_cast<int64_t>(1000.0 * flags.timeout)) {
  const MeshShape shape = mesh_of(flags, launch.n_ranks);
  if (!is_alone()) {
    std::signal(SIGPIPE, SIG_IGN);                              // Gloo writes to whoever has gone
    ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);  // c10d's own warnings, with traces of calls
    c10::initLogging();
    store_ = connect_store(launch, /*may_serve=*/true, timeout_);
    require_same("program", fmt::format("{}, digest {}", core::version(), digest_of_program()));
    roll_call_ = std::make_unique<RollCall>(launch, connect_store(launch, false, timeout_),
                                            connect_store(launch, false, timeout_), std::move(end));
  }
  world_ = std::make_unique<World>(store_, shape, launch.rank, timeout_);
}

Session::~Session() = default;

void Session::require_same(const std::string& what, const std::string& text) {
  if (!is_alone()) parallel::require_same(*store_, launch_, what, text, timeout_);
}

std::string Session::from_first(const std::string& key, const std::function<std::string()>& make) {
  if (is_first()) {
    std::string text = make();
    if (!is_alone()) put(*store_, key, text);
    return text;
  }
  try {
    store_->wait({key}, timeout_);
    return get(*store_, key);
  } catch (const std::exception&) {
    throw RankLost("rank 0 did not come");
  }
}

}  // namespace folio::train::parallel
