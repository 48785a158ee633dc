#include "tests/infer/cuda/host/shared_races.h"

#include <algorithm>
#include <bit>

namespace folio::infer::gpu::host::races {

void SharedRaces::next_interval() {
  if (++interval_ == 0) {  // on overflow, after four billion barriers, forget all accesses
    std::fill(cells_.begin(), cells_.end(), Cell{});
    interval_ = 1;
  }
}

void SharedRaces::sync_warp(unsigned warp, uint32_t mask) {
  uint32_t latest = 0;
  std::array<uint32_t, kLanes> seen{};
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const unsigned thread = warp * kLanes + static_cast<unsigned>(std::countr_zero(left));
    latest = std::max(latest, clock_[thread]);
    for (unsigned lane = 0; lane < kLanes; ++lane) seen[lane] = std::max(seen[lane], known_[thread][lane]);
  }
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    seen[static_cast<unsigned>(std::countr_zero(left))] = latest;
  }
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const unsigned thread = warp * kLanes + static_cast<unsigned>(std::countr_zero(left));
    known_[thread] = seen;
    clock_[thread] = latest + 1;
  }
}

bool SharedRaces::ordered(unsigned before, uint32_t clock, unsigned now) const {
  if (before == now) return true;
  return before / kLanes == now / kLanes && known_[now][before % kLanes] >= clock;
}

std::optional<Access> SharedRaces::touch(size_t offset, const Access& access) {
  Cell& cell = cells_[offset];
  if (cell.write_interval == interval_ && conflict(cell.write_action, access.action) &&
      !ordered(cell.write_thread, cell.write_clock, access.thread)) {
    return Access{cell.write_action, cell.write_thread, from_offset(cell.write_at)};
  }
  if (access.action == Action::kRead) {
    add_reader(cell, access);
    return std::nullopt;
  }
  if (cell.read_interval == interval_) {
    if (auto reader = reader_against(cell, access.thread)) return reader;
  }
  cell.write_interval = interval_;
  cell.write_clock = clock_[access.thread];
  cell.write_at = to_offset(access.caller);
  cell.write_thread = static_cast<uint16_t>(access.thread);
  cell.write_action = access.action;
  cell.read_interval = 0;
  return std::nullopt;
}

std::optional<Access> SharedRaces::reader_against(const Cell& cell, unsigned thread) const {
  const unsigned warp = cell.read_thread / kLanes;
  if (cell.many_warps && warp == thread / kLanes) {
    return Access{Action::kRead, cell.other_thread, from_offset(cell.other_at)};
  }
  for (uint32_t left = cell.read_lanes; left != 0; left &= left - 1) {
    const unsigned reader = warp * kLanes + static_cast<unsigned>(std::countr_zero(left));
    if (!ordered(reader, cell.read_clock, thread)) return Access{Action::kRead, reader, from_offset(cell.read_at)};
  }
  return std::nullopt;
}

void SharedRaces::add_reader(Cell& cell, const Access& access) const {
  const auto thread = static_cast<uint16_t>(access.thread);
  if (cell.read_interval != interval_) {
    cell.read_interval = interval_;
    cell.read_clock = 0;
    cell.read_lanes = 0;
    cell.many_warps = false;
    cell.read_thread = thread;
    cell.read_at = to_offset(access.caller);
  }
  if (cell.read_thread / kLanes != access.thread / kLanes) {
    cell.many_warps = true;
    cell.other_thread = thread;
    cell.other_at = to_offset(access.caller);
    return;
  }
  cell.read_clock = std::max(cell.read_clock, clock_[access.thread]);
  cell.read_lanes |= 1U << access.thread % kLanes;
}

}  // namespace folio::infer::gpu::host::races
