#include "infer/engine/drafter.h"

#include <algorithm>

namespace folio::infer {

// Twice as many after a step in which all were right, no more than were right plus one after others. Where nothing is
// ever right, a try comes ever more seldom: after 1, 2, 4, … up to 32 steps. A lucky one among many that were wrong
// does not make up for all of them.
void DraftPace::learn(size_t n_drafts, size_t n_right) {
  if (n_drafts == 0) {
    pause_ -= pause_ > 0 ? 1 : 0;
    return;
  }
  n_ = std::min(most_, n_right == n_drafts ? 2 * n_ : n_right + 1);
  misses_ = n_right > 0 ? misses_ / 2 : std::min<size_t>(misses_ + 1, 6);
  if (n_right == 0) pause_ = size_t{1} << (misses_ - 1);
}

}  // namespace folio::infer
