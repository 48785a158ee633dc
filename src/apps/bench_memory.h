// How fast this machine's memory can be read, and by which pattern of reads.
#pragma once

#include <cstddef>

namespace folio::apps {

/// Bytes per second that `n_threads` read together, over 512 MiB on large pages, the best of nine passes: three each
/// without prefetches, and prefetched into L1 and into L2.
[[nodiscard]] double read_bandwidth(size_t n_threads);

/// Prints GB/s of several patterns of reads of the same bytes, for one thread and for `n_threads`: without prefetches,
/// and prefetched into each level of the caches at several distances; row after row, and rows side by side; on small
/// and on large pages. It is what the choice in infer/cpu/prefetch.h was made by.
void print_memory_table(size_t n_threads);

}  // namespace folio::apps
