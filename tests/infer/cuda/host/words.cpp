// Implements CUDA's built-in functions for the emulator, and kernel.h's 16-byte accesses and asynchronous copies.
#include <cstring>

#include "core/error.h"
#include "infer/cuda/device.h"
#include "infer/cuda/kernel.h"
#include "tests/infer/cuda/host/block.h"
#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/host/host_device.h"
#include "tests/infer/cuda/host/places.h"
#include "tests/infer/cuda/host/races.h"

namespace folio::infer::gpu {
namespace host {
namespace {

/// A lane's operand of a shuffle. exchange() replaces `bits`, the lane's value, with that of lane `from`.
struct Shuffle {
  uint64_t bits;
  unsigned from;
};

void exchange(const Lanes& lanes, unsigned mask) {
  counting::shuffle();
  std::array<uint64_t, kLanes> bits;
  bits.fill(~uint64_t{0});  // lanes outside the mask have no defined value, so use NaN
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1U) != 0) bits[i] = static_cast<const Shuffle*>(lanes[i])->bits;
  }
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    auto& shuffle = *static_cast<Shuffle*>(lanes[i]);
    shuffle.bits = bits[shuffle.from];
  }
}

uint64_t shuffle(unsigned mask, uint64_t bits, unsigned from, const std::source_location& at) {
  Shuffle mine{bits, from};
  block().meet(mask, &mine, exchange, at);
  return mine.bits;
}

void check_aligned(const void* address, const char* what) {
  core::require(reinterpret_cast<uintptr_t>(address) % 16 == 0, "{} of {}, which is not a multiple of 16: align it",
                what, [&] { return core::message("{}", address); });
}

Words load_words(const void* from, const void* caller) {
  check_aligned(from, "a load of 16 bytes");
  races::read(from, 16, caller);
  Words v;
  std::memcpy(&v, from, 16);
  return v;
}

void land(const PendingCopy& copy, const void* caller) {
  std::memcpy(copy.to, copy.from, 16);
  races::write(copy.to, 16, caller);
}

}  // namespace

uint64_t shuffle_from(unsigned mask, uint64_t bits, int lane, std::source_location at) {
  return shuffle(mask, bits, static_cast<unsigned>(lane) % kLanes, at);
}

uint64_t shuffle_xor(unsigned mask, uint64_t bits, int lanes, std::source_location at) {
  const unsigned me = block().current().lane;
  const unsigned from = me ^ static_cast<unsigned>(lanes);
  return shuffle(mask, bits, from < kLanes ? from : me, at);
}

uint64_t shuffle_down(unsigned mask, uint64_t bits, unsigned by, std::source_location at) {
  const unsigned me = block().current().lane;
  return shuffle(mask, bits, by < kLanes - me ? me + by : me, at);
}

uint64_t shuffle_up(unsigned mask, uint64_t bits, unsigned by, std::source_location at) {
  const unsigned me = block().current().lane;
  return shuffle(mask, bits, by <= me ? me - by : me, at);
}

void* shared_array(size_t element_bytes, size_t count, std::source_location at) {
  return block().shared().array(element_bytes, count, at);
}

unsigned char* dynamic_shared() { return block().shared().dynamic(); }

void wait_copies(int pending) {
  BlockThread& me = block().current();
  size_t landed = 0;
  while (landed < me.copies.size() && me.copies[landed].batch + static_cast<unsigned>(pending) < me.batches) {
    land(me.copies[landed], __builtin_return_address(0));
    ++landed;
  }
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(landed));
}

void launch(Stream& stream, Index grid, Index block_size, size_t shared_bytes, std::function<void()> kernel) {
  static_cast<StreamState*>(stream.handle())->issue([=, kernel = std::move(kernel)] {
    block_of_host_thread().run(grid, block_size, shared_bytes, kernel);
  });
}

}  // namespace host

using host::block;

Words load(const void* from) { return host::load_words(from, __builtin_return_address(0)); }
Words load_once(const void* from) { return host::load_words(from, __builtin_return_address(0)); }

void store(void* to, const Words& v) {
  host::check_aligned(to, "a store of 16 bytes");
  host::races::write(to, 16, __builtin_return_address(0));
  std::memcpy(to, &v, 16);
}

void copy_async(void* shared, const void* global) {
  host::check_aligned(shared, "a copy to 16 bytes");
  host::check_aligned(global, "a copy of 16 bytes");
  core::require(block().shared().holds(shared), "copy_async: its target is not in shared memory: store() to it");
  host::races::read(global, 16, __builtin_return_address(0));
  host::races::write(shared, 16, __builtin_return_address(0));
  std::memset(shared, 0xFF, 16);
  host::BlockThread& me = block().current();
  me.copies.push_back({shared, global, me.batches});
}

void commit_copies() { ++block().current().batches; }

void __syncthreads(std::source_location at) { block().barrier(at); }

void __syncwarp(unsigned mask, std::source_location at) {
  const auto order = [](const host::Lanes& /*lanes*/, unsigned lanes) {
    host::races::sync_warp(block().current().warp, lanes);
  };
  block().meet(mask, nullptr, order, at);
}

void __threadfence() { host::races::fence(); }

namespace {

template <typename T, typename Operation>
T atomically(T* at, const void* caller, Operation operation) {
  host::races::atomic(at, sizeof(T), caller);
  const T before = *at;
  *at = operation(before);
  return before;
}

}  // namespace

unsigned atomicAdd(unsigned* at, unsigned value) {
  return atomically(at, __builtin_return_address(0), [=](unsigned x) { return x + value; });
}

unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
  return atomically(at, __builtin_return_address(0), [=](unsigned long long x) { return x + value; });
}

unsigned atomicMax(unsigned* at, unsigned value) {
  return atomically(at, __builtin_return_address(0), [=](unsigned x) { return x > value ? x : value; });
}

unsigned long long atomicMax(unsigned long long* at, unsigned long long value) {
  return atomically(at, __builtin_return_address(0), [=](unsigned long long x) { return x > value ? x : value; });
}

}  // namespace folio::infer::gpu
