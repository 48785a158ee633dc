// Starts a study's program again, once per rank, for studies that need several processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/launch.h"

namespace folio::experiments {

/// Runs this program with `arguments` as ranks 0 to n - 1 on this host, one thread each. Sets RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT like torchrun. Returns when all ranks have exited. If a rank fails, terminates the other
/// ranks and throws core::Error, which names the failed rank.
void run_ranks(int64_t n, const std::vector<std::string>& arguments);

/// Must be called first in main(). In a process started by run_ranks(), calls `as_rank` with the rank's launch data and
/// the arguments passed to run_ranks(), and returns the exit code: 0, or 1 after printing an error. Returns nullopt in
/// any other process.
[[nodiscard]] std::optional<int> run_as_rank(
    int argc, char** argv,
    const std::function<void(const train::parallel::Launch&, const std::vector<std::string>&)>& as_rank);

}  // namespace folio::experiments
