#include "train/parallel/schedule.h"

#include <algorithm>
#include <utility>

namespace folio::train::parallel {
namespace {

// Divides microbatches into groups of at least n_stages (one group if there are fewer microbatches), so that no rank
// waits for a group's first microbatch to return to the first stage. Returns the groups' sizes, larger ones first.
std::vector<int64_t> group_sizes(int64_t n_stages, int64_t n_microbatches) {
  const int64_t n_groups = std::max<int64_t>(1, n_microbatches / n_stages);
  std::vector<int64_t> sizes(static_cast<size_t>(n_groups), n_microbatches / n_groups);
  for (int64_t i = 0; i < n_microbatches % n_groups; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

// Returns a rank's passes of this kind: each group of microbatches runs through all of the rank's chunks of layers, in
// reverse order for backward passes, before the next group. `groups` has the groups' sizes.
std::vector<Action> passes(Action::Kind kind, int64_t n_chunks, const std::vector<int64_t>& groups) {
  std::vector<Action> actions;
  int64_t first = 0;
  for (const int64_t size : groups) {
    for (int64_t i = 0; i < n_chunks; ++i) {
      const int64_t chunk = kind == Action::Kind::Forward ? i : n_chunks - 1 - i;
      for (int64_t m = first; m < first + size; ++m) actions.push_back({kind, chunk, m});
    }
    first += size;
  }
  return actions;
}

}  // namespace

Schedule interleaved(int64_t n_stages, int64_t n_chunks, int64_t n_microbatches) {
  const auto groups = group_sizes(n_stages, n_microbatches);
  const auto forward = passes(Action::Kind::Forward, n_chunks, groups);
  const auto backward = passes(Action::Kind::Backward, n_chunks, groups);
  Schedule schedule;
  for (int64_t rank = 0; rank < n_stages; ++rank) {
    // Warm-up: the number of forward passes before forward and backward passes alternate. With one chunk, it is the
    // number of ranks after this one. With several, it is the first group's passes through all chunks except the last,
    // plus two per rank after this one: the first microbatch must reach the last rank, and its gradient must return.
    const int64_t after = n_stages - 1 - rank;
    const int64_t n = n_chunks == 1 ? after : groups.front() * (n_chunks - 1) + 2 * after;
    const size_t warm_up = std::min(forward.size(), static_cast<size_t>(n));
    std::vector<Action> actions(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (size_t i = 0; i < backward.size(); ++i) {
      if (warm_up + i < forward.size()) actions.push_back(forward[warm_up + i]);
      actions.push_back(backward[i]);
    }
    schedule.push_back(std::move(actions));
  }
  return schedule;
}

}  // namespace folio::train::parallel
