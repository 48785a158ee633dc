#include "infer/shards/local_exchange.h"

#include <algorithm>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace folio::infer {
namespace {

constexpr int kSpins = 1000;  // some 10 µs: a meeting's others are nearly there, unless the system doesn't run them

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

void LocalExchange::begin(size_t rank, const std::array<float*, kSlots>& slots, const SlotWidths& widths) {
  places_[rank] = slots;
  if (rank == 0) widths_ = widths;
  meet();  // all places are known
}

void LocalExchange::give(size_t rank, const SlotPart& part) {
  const auto slot = static_cast<size_t>(part.slot);
  const size_t n_receivers = part.slot == Slot::Logits ? 1 : places_.size();
  for (size_t to = 0; to < n_receivers; ++to) {
    if (to == rank) continue;
    for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
      const size_t first = row * widths_[slot];
      std::copy(places_[rank][slot] + first + part.first, places_[rank][slot] + first + part.last,
                places_[to][slot] + first + part.first);
    }
    received_[rank].bytes += part.n_rows * (part.last - part.first) * sizeof(float);
  }
}

void LocalExchange::meet() {
  const uint32_t meeting = n_meetings_.load(std::memory_order_acquire);
  const auto check = [this] { core::require(!broken_.load(std::memory_order_acquire), "another shard failed"); };
  check();  // after a failure nobody else may come
  if (n_here_.fetch_add(1, std::memory_order_acq_rel) + 1 == places_.size()) {
    n_here_.store(0, std::memory_order_relaxed);
    n_meetings_.store(meeting + 1, std::memory_order_release);
    n_meetings_.notify_all();
  } else {
    for (int spin = 0; spin < kSpins && n_meetings_.load(std::memory_order_acquire) == meeting; ++spin) pause();
    n_meetings_.wait(meeting, std::memory_order_acquire);
  }
  check();
}

void LocalExchange::break_off() {
  broken_.store(true, std::memory_order_release);
  n_meetings_.fetch_add(1, std::memory_order_release);
  n_meetings_.notify_all();
}

void LocalExchange::reset() {
  broken_.store(false, std::memory_order_relaxed);
  n_here_.store(0, std::memory_order_relaxed);
}

uint64_t LocalExchange::bytes() const {
  uint64_t sum = 0;
  for (const Received& r : received_) sum += r.bytes;
  return sum;
}

}  // namespace folio::infer
