// Throws the errors for threads that would wait forever: diverged lanes, and barriers that not all threads reach.
#include <algorithm>
#include <bit>
#include <span>

#include "core/error.h"
#include "tests/infer/cuda/host/block.h"
#include "tests/infer/cuda/host/places.h"

namespace folio::infer::gpu::host {

std::string Block::where(unsigned warp, unsigned lane) const {
  const Warp& w = warps_[warp];
  const uint32_t bit = 1U << lane;
  if ((w.exists & bit) == 0) return core::message("lane {} of warp {} is not in the block", lane, warp);
  const std::string name = Block::name(thread_at(warp * kLanes + lane));
  if ((w.finished & bit) != 0) return core::message("{} has returned", name);
  if ((w.at_barrier & bit) != 0) return core::message("{} waits at the barrier of {}", name, place(barrier_at_));
  for (unsigned i = 0; i < w.n_meetings; ++i) {
    const Meeting& m = w.meetings[i];
    if ((m.arrived & bit) != 0) {
      return core::message("{} waits at {} for the lanes 0x{:08x}", name, place(m.at), m.mask);
    }
  }
  return core::message("{} has not come", name);
}

void Block::fail_meeting(const Warp& warp, uint32_t mask, const std::source_location& at) const {
  const BlockThread& me = *current_;
  const std::string here = core::message("{} meets the lanes 0x{:08x} at {}", name(me), mask, place(at));
  if ((mask & 1U << me.lane) == 0) core::fail("{}, but is lane {} itself: name it in the mask", here, me.lane);
  uint32_t wrong = mask & (~warp.exists | warp.finished);
  for (unsigned i = 0; wrong == 0 && i < warp.n_meetings; ++i) {
    if ((warp.meetings[i].mask & 1U << me.lane) != 0) wrong = warp.meetings[i].arrived & mask;
  }
  core::fail("{}, but {}: all lanes of a mask go to one place with the same mask", here,
             where(me.warp, static_cast<unsigned>(std::countr_zero(wrong))));
}

void Block::fail_barrier(const std::source_location& at) const {
  const auto elsewhere = std::ranges::find_if(std::span(threads_).first(n_threads_), [&](const BlockThread& t) {
    return ((warps_[t.warp].finished | warps_[t.warp].at_barrier) & 1U << t.lane) != 0;
  });
  core::fail("{} comes to the barrier of {}, but {}: all threads of a block go to the same barriers", name(*current_),
             place(at), where(elsewhere->warp, elsewhere->lane));
}

void Block::fail_stuck() const {
  // Lanes that wait for other lanes are reported first, since a barrier waits for those lanes, too.
  for (unsigned w = 0; w < n_warps_; ++w) {
    if (warps_[w].n_meetings == 0) continue;
    const Meeting& m = warps_[w].meetings[0];
    core::fail("{}, but {}: all lanes of a mask go to one place with the same mask",
               where(w, static_cast<unsigned>(std::countr_zero(m.arrived))),
               where(w, static_cast<unsigned>(std::countr_zero(m.mask & ~m.arrived))));
  }
  core::fail("the threads of a block wait for each other");
}

}  // namespace folio::infer::gpu::host
