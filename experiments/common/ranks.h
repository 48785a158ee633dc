// A study that needs several processes starts itself anew as each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/launch.h"

namespace folio::experiments {

/// Runs this program with these arguments as the ranks 0 .. n - 1 of one run on this host, one thread each: it finds
/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, as torchrun sets them. Returns when all have
/// ended. Throws core::Error that names the first rank that failed, after ending the others.
void run_ranks(int64_t n, const std::vector<std::string>& arguments);

/// For main(), before all else: in a process that run_ranks() started, as_rank(its launch, its arguments), and the exit
/// code: 0, or 1 after an error, which is printed. Empty in a process that is no rank.
[[nodiscard]] std::optional<int> run_as_rank(
    int argc, char** argv,
    const std::function<void(const train::parallel::Launch&, const std::vector<std::string>&)>& as_rank);

}  // namespace folio::experiments
