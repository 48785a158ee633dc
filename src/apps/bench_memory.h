// Memory read bandwidth of this machine, by access pattern.
#pragma once

#include <cstddef>

namespace folio::apps {

/// Returns the bytes per second that `n_threads` read together from 512 MiB on large pages. Best of nine passes: three
/// each without prefetching, with prefetching into L1, and into L2.
[[nodiscard]] double read_bandwidth(size_t n_threads);

/// Prints GB/s for several access patterns, on small and on large pages, for one thread and for `n_threads`: one row
/// after another or rows side by side, without prefetching and prefetched into each cache level at several distances.
/// The prefetch mode in infer/cpu/prefetch.h was chosen by these figures.
void print_memory_table(size_t n_threads);

}  // namespace folio::apps
