#include "train/parallel/session.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/version.h"
#include "data/document_tokens.h"

namespace folio::train::parallel {
namespace {

// Returns the mesh of n_ranks ranks. Throws core::UsageError if the flags require a different number of ranks.
MeshShape mesh_of(const MeshFlags& flags, int64_t n_ranks) {
  MeshShape shape{.sizes = {flags.pipeline, 1, flags.expert, flags.context, flags.tensor}};  // in the order of kAxes
  shape[Axis::Data] = flags.data > 0 ? flags.data : std::max<int64_t>(1, n_ranks / shape.n_ranks());
  if (shape.n_ranks() == n_ranks) return shape;
  throw core::UsageError(
      n_ranks == 1
          ? fmt::format("a mesh of {} needs {} ranks, but this is one process; start it with torchrun --no-python "
                        "--nproc-per-node {}",
                        to_string(shape), shape.n_ranks(), shape.n_ranks())
          : fmt::format("a mesh of {} needs {} ranks, but {} were started", to_string(shape), shape.n_ranks(),
                        n_ranks));
}

std::string digest_of_program() {
  const core::MappedFile program("/proc/self/exe");
  data::Digest digest;
  digest.add({reinterpret_cast<const char*>(program.bytes().data()), program.bytes().size()});
  return digest.hex();
}

}  // namespace

RankSession::RankSession(const Launch& launch, const MeshFlags& flags, std::function<void(const std::string&)> end)
    : launch_(launch), timeout_(static_cast<int64_t>(1000.0 * flags.timeout)) {
  const MeshShape shape = mesh_of(flags, launch.n_ranks);
  if (!is_alone()) {
    std::signal(SIGPIPE, SIG_IGN);                              // Gloo may write to a closed connection
    ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);  // hides what c10d logs before it throws
    c10::initLogging();
    store_ = connect_store(launch, /*may_serve=*/true, timeout_);
    require_same("program", fmt::format("{}, digest {}", core::version(), digest_of_program()));
    roll_call_ = std::make_unique<RollCall>(launch, connect_store(launch, false, timeout_),
                                            connect_store(launch, false, timeout_), std::move(end));
  }
  world_ = std::make_unique<World>(store_, shape, launch.rank, timeout_);
}

RankSession::~RankSession() = default;

void RankSession::require_same(const std::string& what, const std::string& text) {
  if (is_alone()) return;
  const auto key = [&](int64_t rank) { return fmt::format("same {} {}", what, rank); };
  put(*store_, key(launch_.rank), text);
  std::string first;
  for (int64_t rank = 0; rank < launch_.n_ranks; ++rank) {
    core::require(comes(*store_, key(rank), timeout_),
                  "rank {} did not connect within {} s; start all ranks with the same MASTER_ADDR and MASTER_PORT",
                  rank, timeout_.count() / 1000);
    const std::string other = get(*store_, key(rank));
    if (rank == 0) first = other;
    if (other == first) continue;
    const auto at = std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first - first.begin();
    const size_t begin = first.substr(0, static_cast<size_t>(at)).rfind('\n') + 1;  // start of the line; npos + 1 is 0
    const auto line_of = [&](const std::string& all) { return all.substr(begin, all.find('\n', begin) - begin); };
    // The process that runs the store must not end before the other ranks have read all texts from the store.
    const auto read_by = [&](int64_t reader) { return fmt::format("read {} {}", what, reader); };
    put(*store_, read_by(launch_.rank), "");
    for (int64_t by = 1; launch_.has_store() && by < launch_.n_ranks; ++by) {
      comes(*store_, read_by(by), std::chrono::seconds(5));
    }
    throw core::UsageError(fmt::format("rank {} differs from rank 0 in {}: {}, not {}; start all ranks alike", rank,
                                       what, core::printable(line_of(other)), core::printable(line_of(first))));
  }
}

std::string RankSession::from_first(const std::string& key, const std::function<std::string()>& make) {
  if (is_first()) {
    std::string text = make();
    if (!is_alone()) put(*store_, key, text);
    return text;
  }
  if (!comes(*store_, key, timeout_)) throw RankLost("rank 0 did not respond in time");
  return get(*store_, key);
}

}  // namespace folio::train::parallel
