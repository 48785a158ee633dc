// Schedules the emulated threads of a block. A fiber runs one thread after another. If a thread must wait for others,
// its fiber is suspended and another fiber continues.
#include "tests/infer/cuda/host/block.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/host/host_device.h"
#include "tests/infer/cuda/host/places.h"
#include "tests/infer/cuda/host/races.h"

namespace folio::infer::gpu::host {

constinit thread_local const Thread* running_thread = nullptr;
constinit thread_local Block* running_block = nullptr;

namespace {

/// Thrown in waiting threads when another one fails, to unwind their stacks.
struct Abandoned {};

uint64_t next_random(uint64_t& state) {  // xorshift64*: Marsaglia 2003, Vigna 2016
  state ^= state >> 12U;
  state ^= state << 25U;
  state ^= state >> 27U;
  return (state * 0x2545F4914F6CDD1DULL) >> 32U;
}

uint64_t product(Index i) { return uint64_t{i.x} * i.y * i.z; }

void fiber_body(boost::context::detail::transfer_t from) {
  arrive(from);
  block().run_threads();
}

}  // namespace

Block& block_of_host_thread() {
  thread_local Block block;
  return block;
}

Block::Block() : fibers_(fiber_body) {}

std::string Block::name(const BlockThread& t) const {
  const Index& i = t.thread_index;
  return core::message("thread ({}, {}, {}) of block ({}, {}, {})", i.x, i.y, i.z, block_index_.x, block_index_.y,
                       block_index_.z);
}

void Block::run(Index grid, Index block, size_t shared_bytes, const std::function<void()>& kernel) {
  core::require(kernel_ == nullptr, "a kernel launches a kernel: launch both from the host");
  core::require(product(block) >= 1 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && product(block) <= 1024,
                "launch: a block of {} x {} x {} threads: a GPU takes 1 to 1024, at most 64 in z", block.x, block.y,
                block.z);
  core::require(product(grid) >= 1 && grid.x <= 0x7FFFFFFFU && grid.y <= 0xFFFFU && grid.z <= 0xFFFFU,
                "launch: a grid of {} x {} x {} blocks: a GPU takes 1 to 2147483647 in x, and 1 to 65535 in y and z",
                grid.x, grid.y, grid.z);
  kernel_ = &kernel;
  running_block = this;
  shared_bytes_ = shared_bytes;
  shared_limit_ = device_shape().shared_bytes;
  order_ = order();
  random_ = order_.seed * 0x9E3779B97F4A7C15ULL | 1U;
  make_threads(grid, block);
  const auto index_of = [&](uint64_t i) {
    return Index{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                 static_cast<unsigned>(i / grid.x / grid.y)};
  };
  const uint64_t n = product(grid);
  try {
    races::begin_launch();
    counting::begin_launch(n, n_threads_);
    block_order_.resize(n);
    std::iota(block_order_.begin(), block_order_.end(), 0U);
    if (order_.kind == Order::Kind::kFalling) std::ranges::reverse(block_order_);
    for (size_t i = n; order_.kind == Order::Kind::kRandom && i > 1; --i) {
      std::swap(block_order_[i - 1], block_order_[next_random(random_) % i]);
    }
    for (const uint32_t i : block_order_) run_block(index_of(i));
    races::end_launch();
  } catch (...) {
    races::end_launch();
    kernel_ = nullptr;
    throw;
  }
  kernel_ = nullptr;
}

void Block::make_threads(Index grid, Index block) {
  n_threads_ = static_cast<unsigned>(product(block));
  n_warps_ = (n_threads_ + kLanes - 1) / kLanes;
  grid_ = grid;
  block_ = block;
  if (threads_.size() < n_threads_) threads_.resize(n_threads_);
  unsigned i = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x, ++i) {
        BlockThread& t = threads_[i];
        t.thread_index = {x, y, z};
        t.block_size = block;
        t.grid_size = grid;
        t.warp = i / kLanes;
        t.lane = i % kLanes;
      }
    }
  }
}

void Block::begin_block(Index index) {
  block_index_ = index;
  for (unsigned i = 0; i < n_threads_; ++i) {
    threads_[i].block_index = index;
    threads_[i].copies.clear();
    threads_[i].batches = 0;
  }
  ready_warps_ = 0;
  for (unsigned w = 0; w < n_warps_; ++w) {
    const unsigned lanes = std::min(kLanes, n_threads_ - w * kLanes);
    Warp& warp = warps_[w];
    warp.exists = lanes == kLanes ? ~0U : (1U << lanes) - 1;
    warp.ready = 0;
    warp.finished = 0;
    warp.at_barrier = 0;
    warp.n_meetings = 0;
    make_ready(w, warp.exists);
  }
  n_finished_ = 0;
  n_at_barrier_ = 0;
  error_ = nullptr;
  shared_.begin_block(shared_bytes_, shared_limit_);
  const uint32_t number = (index.z * grid_.y + index.y) * grid_.x + index.x;
  races::begin_block(number);
  counting::begin_block(number);
}

void Block::run_block(Index index) {
  begin_block(index);
  current_ = pick();
  running_thread = current_;
  current_->fiber = fibers_.take();
  switch_fibers(caller_, *current_->fiber);
  current_ = nullptr;
  running_thread = nullptr;
  races::end_block();  // throws first if a race was detected, as it happened before `error_`
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  shared_.end_block();
  counting::end_block(shared_.bytes());
}

unsigned Block::pick_bit(uint32_t bits) {
  switch (order_.kind) {
    case Order::Kind::kRising:
      return static_cast<unsigned>(std::countr_zero(bits));
    case Order::Kind::kFalling:
      return 31U - static_cast<unsigned>(std::countl_zero(bits));
    case Order::Kind::kRandom:
      break;
  }
  const auto by = static_cast<int>(next_random(random_) % 32);
  return (static_cast<unsigned>(std::countr_zero(std::rotr(bits, by))) + static_cast<unsigned>(by)) % 32;
}

BlockThread* Block::pick() {
  if (ready_warps_ == 0) return nullptr;
  const unsigned w = pick_bit(ready_warps_);
  Warp& warp = warps_[w];
  const unsigned lane = pick_bit(warp.ready);
  warp.ready &= ~(1U << lane);
  if (warp.ready == 0) ready_warps_ &= ~(1U << w);
  return &threads_[w * kLanes + lane];
}

void Block::run_threads() {
  for (;;) {
    run_current();
    Fiber* here = std::exchange(current_->fiber, nullptr);
    BlockThread* next = pick();
    if (next == nullptr && n_finished_ < n_threads_ && !error_) {
      try {
        fail_stuck();
      } catch (...) {
        stop(std::current_exception());
      }
      next = pick();
    }
    if (next != nullptr && next->fiber == nullptr) {  // the next thread starts on this fiber
      current_ = next;
      running_thread = next;
      next->fiber = here;
      continue;
    }
    fibers_.give_back(here);
    if (next != nullptr) {
      current_ = next;
      running_thread = next;
    }
    switch_fibers(*here, next != nullptr ? *next->fiber : caller_);
  }
}

void Block::run_current() {
  BlockThread& t = *current_;
  try {
    (*kernel_)();
    check_end(t);
  } catch (const Abandoned&) {  // NOLINT: the thread ends
  } catch (...) {
    stop(std::current_exception());
  }
  warps_[t.warp].finished |= 1U << t.lane;
  ++n_finished_;
}

void Block::stop(std::exception_ptr error) {
  if (error_) return;
  error_ = std::move(error);
  ready_warps_ = 0;
  for (unsigned w = 0; w < n_warps_; ++w) warps_[w].ready = 0;
  for (unsigned i = 0; i < n_threads_; ++i) {
    const BlockThread& t = threads_[i];
    if (t.fiber != nullptr && &t != current_) make_ready(t.warp, 1U << t.lane);
  }
}

void Block::wait_for_others() {
  BlockThread& me = *current_;
  BlockThread* next = pick();
  if (next == nullptr) fail_stuck();
  if (next->fiber == nullptr) next->fiber = fibers_.take();
  current_ = next;
  running_thread = next;
  switch_fibers(*me.fiber, *next->fiber);
  if (error_) [[unlikely]] {
    throw Abandoned{};
  }
}

void Block::complete(Warp& warp, Meeting& meeting, void (*compute)(const Lanes&, unsigned)) {
  const uint32_t mask = meeting.mask;
  meeting = warp.meetings[--warp.n_meetings];
  if (mask == warp.exists) counting::meet(current_->warp);
  if (mask == ~0U) {
    compute(warp.data, mask);
    return;
  }
  Lanes lanes{};
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    lanes[lane] = warp.data[lane];
  }
  compute(lanes, mask);
}

void Block::meet(uint32_t mask, void* mine, void (*compute)(const Lanes& lanes, unsigned mask),
                 const std::source_location& at) {
  BlockThread& me = *current_;
  Warp& warp = warps_[me.warp];
  const uint32_t bit = 1U << me.lane;
  if ((mask & bit) == 0 || (mask & ~warp.exists) != 0 || (mask & warp.finished) != 0) fail_meeting(warp, mask, at);
  warp.data[me.lane] = mine;
  for (unsigned i = 0; i < warp.n_meetings; ++i) {
    Meeting& meeting = warp.meetings[i];
    if (meeting.mask == mask && same_place(meeting.at, at)) {
      meeting.arrived |= bit;
      if (meeting.arrived != mask) return wait_for_others();
      complete(warp, meeting, compute);
      make_ready(me.warp, mask & ~bit);
      return;
    }
    // Other lanes wait for this one elsewhere or with another mask, and it would wait for them: a deadlock.
    if ((meeting.mask & bit) != 0 && (meeting.arrived & mask) != 0) fail_meeting(warp, mask, at);
  }
  Meeting& meeting = warp.meetings[warp.n_meetings++];
  meeting = {mask, bit, at};
  if (mask != bit) return wait_for_others();
  complete(warp, meeting, compute);
}

void Block::barrier(const std::source_location& at) {
  BlockThread& me = *current_;
  if (n_finished_ > 0 || (n_at_barrier_ > 0 && !same_place(barrier_at_, at))) fail_barrier(at);
  barrier_at_ = at;
  warps_[me.warp].at_barrier |= 1U << me.lane;
  if (++n_at_barrier_ < n_threads_) return wait_for_others();
  for (unsigned w = 0; w < n_warps_; ++w) {
    warps_[w].at_barrier = 0;
    make_ready(w, warps_[w].exists);
  }
  warps_[me.warp].ready &= ~(1U << me.lane);
  if (warps_[me.warp].ready == 0) ready_warps_ &= ~(1U << me.warp);
  n_at_barrier_ = 0;
  races::barrier();
  counting::barrier();
}

void Block::check_end(const BlockThread& t) const {
  const uint32_t bit = 1U << t.lane;
  const Warp& warp = warps_[t.warp];
  core::require(
      t.copies.empty(), "{} returns while {} of its copies are on their way: wait_copies<0>() first",
      [&] { return name(t); }, t.copies.size());
  core::require(
      n_at_barrier_ == 0, "{} returns while others wait at the barrier of {}: it has to go there, too",
      [&] { return name(t); }, [&] { return place(barrier_at_); });
  for (unsigned i = 0; i < warp.n_meetings; ++i) {
    core::require((warp.meetings[i].mask & bit) == 0,
                  "{} returns while other lanes of its warp wait for it at {}: it has to go there, too",
                  [&] { return name(t); }, [&] { return place(warp.meetings[i].at); });
  }
}

}  // namespace folio::infer::gpu::host
