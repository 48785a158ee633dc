// Measures the memory read bandwidth of this machine, by access pattern.
#pragma once

#include <cstddef>

namespace folio::apps {

/// Returns the bytes per second at which `n_threads` threads together read 512 MiB on large pages: the best of nine
/// passes. Three do not prefetch, three prefetch into L1, and three into L2.
[[nodiscard]] double read_bandwidth(size_t n_threads);

/// Prints a table of memory read bandwidths in GB/s, on small and large pages, with one thread and with `n_threads`.
/// Each thread reads one array or interleaves reads of 2 to 16 arrays, with and without prefetching into each cache
/// level. The prefetch mode in infer/cpu/prefetch.h was chosen from such a table.
void print_memory_table(size_t n_threads);

}  // namespace folio::apps
