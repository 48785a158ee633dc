#include "tests/infer/cuda/host/device_races.h"

#include <algorithm>
#include <atomic>

namespace folio::infer::gpu::host::races {

DeviceCell& DeviceRange::cell(size_t offset, uint64_t launch) {
  std::unique_ptr<Page>& page = pages_[offset / kPage];
  if (page == nullptr) page = std::make_unique<Page>();
  if (page->launch != launch) {
    std::fill(std::begin(page->cells), std::end(page->cells), DeviceCell{});
    page->launch = launch;
  }
  return page->cells[offset % kPage];
}

void DeviceRaces::begin_launch() {
  static std::atomic<uint64_t> launches{0};
  launch_ = ++launches;
  ran_.clear();
  left_.clear();
}

void DeviceRaces::begin_block(uint32_t block) {
  block_ = block;
  interval_ = 0;
  known_.clear();
  unfenced_.reset();
  unfenced_before_ = false;
}

void DeviceRaces::end_block() { ran_.push_back(block_); }

void DeviceRaces::barrier() {
  ++interval_;
  if (unfenced_.any()) unfenced_before_ = true;
  unfenced_.reset();
}

void DeviceRaces::fence(unsigned thread) {
  unfenced_[thread] = false;
  unfenced_before_ = false;  // a fence also orders writes of other threads that this thread has observed
}

void DeviceRaces::learn(Knowledge& of, uint32_t block, Known known) {
  const auto [at, is_new] = of.try_emplace(block, known);
  if (is_new) return;
  Known& before = at->second;
  if (known.interval > before.interval) {
    before = known;
  } else if (known.interval == before.interval && known.warp != before.warp) {
    before.warp = kAnyWarp;
  }
}

void DeviceRaces::join(const void* word, unsigned thread) {
  Knowledge& left = left_[word];
  for (const auto& [block, known] : left) learn(known_, block, known);
  if (unfenced_[thread] || unfenced_before_) return;
  for (const auto& [block, known] : known_) learn(left, block, known);
  learn(left, block_, {interval_, thread / 32});
}

Moment DeviceRaces::now(const Access& access) const {
  return {block_, interval_ * kThreads + access.thread, to_offset(access.caller)};
}

bool DeviceRaces::ordered(const Moment& before, unsigned thread) const {
  const uint32_t interval = before.interval_and_thread / kThreads;
  const uint32_t warp = before.interval_and_thread % kThreads / 32;
  if (before.block == block_) return interval < interval_ || warp == thread / 32;
  const auto known = known_.find(before.block);
  if (known == known_.end()) return false;
  const Known& k = known->second;
  return interval < k.interval || (interval == k.interval && (k.warp == kAnyWarp || k.warp == warp));
}

const Moment* DeviceRaces::reader_against(const DeviceCell& cell, unsigned thread) const {
  if (!cell.was_read) return nullptr;
  if (!ordered(cell.read, thread)) return &cell.read;
  if (cell.many_warps && !ordered(cell.warp_read, thread)) return &cell.warp_read;
  if (!cell.many_blocks) return nullptr;
  // The cell stores no list of the blocks that read, so the writer must be ordered after all blocks that ran.
  const uint32_t latest = cell.other_read.interval_and_thread / kThreads;
  const bool knows_all = std::all_of(ran_.begin(), ran_.end(), [&](uint32_t block) {
    const auto known = known_.find(block);
    return known != known_.end() && known->second.interval >= latest;
  });
  return knows_all ? nullptr : &cell.other_read;
}

void DeviceRaces::add_reader(DeviceCell& cell, const Access& access) const {
  if (!cell.was_read) {
    cell.many_warps = false;
    cell.many_blocks = false;
  } else if (cell.read.block != block_) {
    if (!cell.many_blocks || cell.read.interval_and_thread > cell.other_read.interval_and_thread) {
      cell.other_read = cell.read;
    }
    cell.many_blocks = true;
    cell.many_warps = false;
  } else if (!ordered(cell.read, access.thread)) {
    cell.many_warps = true;
    cell.warp_read = cell.read;
  }
  cell.was_read = true;
  cell.read = now(access);
}

std::optional<BlockAccess> DeviceRaces::touch(DeviceRange& range, size_t offset, const Access& access) {
  DeviceCell& cell = range.cell(offset, launch_);
  const auto found = [](Action action, const Moment& m) {
    return BlockAccess{{action, m.interval_and_thread % kThreads, from_offset(m.at)}, m.block};
  };
  if (cell.written && conflict(cell.write_action, access.action) && !ordered(cell.write, access.thread)) {
    return found(cell.write_action, cell.write);
  }
  if (access.action == Action::kRead) {
    add_reader(cell, access);
    return std::nullopt;
  }
  if (const Moment* reader = reader_against(cell, access.thread)) return found(Action::kRead, *reader);
  cell.write = now(access);
  cell.write_action = access.action;
  cell.written = true;
  cell.was_read = false;
  if (access.action == Action::kWrite) unfenced_[access.thread] = true;
  return std::nullopt;
}

}  // namespace folio::infer::gpu::host::races
