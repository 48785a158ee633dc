#include "tests/infer/cuda/host/counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "core/error.h"
#include "tests/infer/cuda/host/access.h"
#include "tests/infer/cuda/host/block.h"

namespace folio::infer::gpu::host {
namespace {

constexpr uint64_t kSectorBytes = 32;
constexpr uint64_t kBanks = 32;
constexpr uint64_t kBankBytes = 4;

/// An event in a thread's record: a basic block or a memory access.
struct Event {
  enum class Kind : uint8_t { kBasicBlock, kLoad, kStore, kSharedLoad, kSharedStore };
  const void* caller = nullptr;
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint16_t depth = 0;
  Kind kind = Kind::kBasicBlock;
};
using Record = std::vector<Event>;

struct Counter {
  Counts counts;
  std::vector<WarpAccess> trace;
  TracedWarp traced;
  uint32_t block = 0;
  std::array<Record, kLanes * kMaxWarps> records;
  std::array<uint16_t, kLanes * kMaxWarps> depths{};
  std::unordered_set<uint64_t> loaded;  // indices of the sectors loaded in this launch
  std::unordered_set<uint64_t> stored;
};

constinit thread_local Counter* counter = nullptr;  // the counter of the running CountScope, or null
Counter& counter_of_host_thread() {
  thread_local const auto counter = std::make_unique<Counter>();
  return *counter;
}

/// Returns the address of the first basic block after index `at` of the record, or null if there is none.
const void* next_basic_block(const Record& record, size_t at) {
  for (size_t i = at + 1; i < record.size(); ++i) {
    if (record[i].kind == Event::Kind::kBasicBlock) return record[i].caller;
  }
  return nullptr;
}

void count_device(Counter& c, const WarpAccess& a) {
  std::array<uint64_t, 2 * kLanes> sectors;
  size_t n = 0;
  for (uint32_t left = a.active; left != 0; left &= left - 1) {
    const uint64_t at = a.address[static_cast<size_t>(std::countr_zero(left))];
    sectors[n++] = at / kSectorBytes;
    sectors[n++] = (at + a.bytes - 1) / kSectorBytes;
  }
  std::sort(sectors.begin(), sectors.begin() + n);
  const auto end = std::unique(sectors.begin(), sectors.begin() + n);
  const auto bytes = static_cast<uint64_t>(std::popcount(a.active)) * a.bytes;
  (a.store ? c.counts.stored_bytes : c.counts.loaded_bytes) += bytes;
  (a.store ? c.counts.store_requests : c.counts.load_requests) += 1;
  (a.store ? c.counts.store_sectors : c.counts.load_sectors) += static_cast<uint64_t>(end - sectors.begin());
  auto& seen = a.store ? c.stored : c.loaded;
  for (auto s = sectors.begin(); s != end; ++s) c.counts.distinct_sectors += seen.insert(*s).second ? 1 : 0;
}

/// Counts a shared-memory access. With 8 bytes per lane, half a warp is served at a time; with 16 bytes, a quarter of a
/// warp.
void count_shared(Counter& c, const WarpAccess& a) {
  const uint32_t words = std::max<uint32_t>(1, a.bytes / kBankBytes);
  const unsigned lanes = kLanes / words;
  ++c.counts.shared_requests;
  for (unsigned first = 0; first < kLanes; first += lanes) {
    std::array<std::vector<uint64_t>, kBanks> words_of;  // distinct words by bank
    size_t most = 0;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      if ((a.active >> lane & 1U) == 0) continue;
      for (uint64_t word = a.address[lane] / kBankBytes; word * kBankBytes < a.address[lane] + a.bytes; ++word) {
        auto& of = words_of[word % kBanks];
        if (std::find(of.begin(), of.end(), word) == of.end()) of.push_back(word);
        most = std::max(most, of.size());
      }
    }
    c.counts.shared_wavefronts += most;
    if (most > 1) c.counts.bank_conflicts += most - 1;
  }
}

void count_access(Counter& c, const WarpAccess& a, unsigned warp) {
  a.shared ? count_shared(c, a) : count_device(c, a);
  if (c.block == c.traced.block && warp == c.traced.warp && c.trace.size() < c.traced.max_accesses)
    c.trace.push_back(a);
}

/// Replays the records of a warp's lanes in lockstep, adds to the counts, and clears the records.
void replay(Counter& c, unsigned warp) {
  Record* const records = &c.records[size_t{warp} * kLanes];
  std::array<size_t, kLanes> at{};
  uint32_t left = 0;  // mask of lanes that are not at the end of their record
  for (unsigned lane = 0; lane < kLanes; ++lane) left |= records[lane].empty() ? 0 : 1U << lane;
  while (left != 0) {
    const Event* first = nullptr;
    uint32_t active = 0;
    for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      const Event& e = records[lane][at[lane]];
      if (first == nullptr || e.depth > first->depth || (e.depth == first->depth && e.caller < first->caller)) {
        first = &e;
        active = 0;
      }
      if (e.depth == first->depth && e.caller == first->caller) active |= 1U << lane;
    }
    if (first->kind == Event::Kind::kBasicBlock) {
      ++c.counts.basic_blocks;
      c.counts.active_lanes += static_cast<uint64_t>(std::popcount(active));
      const auto one = static_cast<unsigned>(std::countr_zero(active));
      const void* next = next_basic_block(records[one], at[one]);
      for (uint32_t rest = active & (active - 1); rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(rest));
        if (next_basic_block(records[lane], at[lane]) == next) continue;
        ++c.counts.divergent_branches;
        break;
      }
    } else {
      WarpAccess a{.shared = first->kind >= Event::Kind::kSharedLoad,
                   .store = first->kind == Event::Kind::kStore || first->kind == Event::Kind::kSharedStore,
                   .bytes = first->bytes,
                   .active = active,
                   .caller = first->caller};
      for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(rest));
        a.address[lane] = records[lane][at[lane]].address;
      }
      count_access(c, a, warp);
    }
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      if (++at[lane] == records[lane].size()) left &= ~(1U << lane);
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) records[lane].clear();
}

void replay_all(Counter& c) {
  for (unsigned warp = 0; warp < kMaxWarps; ++warp) replay(c, warp);
}

unsigned running() { return block().number(block().current()); }

}  // namespace

std::string place_of(const WarpAccess& access) { return races::source_of(access.caller); }

CountScope::CountScope(TracedWarp traced) {
  core::require(counter == nullptr, "a CountScope is nested in another: end that one first");
  counter = &counter_of_host_thread();
  counter->counts = {};
  counter->trace.clear();
  counter->traced = traced;
}
CountScope::~CountScope() { counter = nullptr; }
const Counts& CountScope::counts() const { return counter->counts; }
const std::vector<WarpAccess>& CountScope::trace() const { return counter->trace; }

namespace counting {

void begin_launch(uint64_t n_blocks, unsigned block_threads) {
  if (counter == nullptr) return;
  ++counter->counts.launches;
  counter->counts.blocks += n_blocks;
  counter->counts.block_threads = block_threads;
  counter->loaded.clear();
  counter->stored.clear();
}

void begin_block(uint32_t block) {
  if (counter == nullptr) return;
  counter->block = block;
  for (Record& record : counter->records) record.clear();  // discard the records of a failed block
  counter->depths.fill(0);
}

void end_block(size_t shared_bytes) {
  if (counter == nullptr) return;
  replay_all(*counter);
  counter->counts.shared_bytes = std::max(counter->counts.shared_bytes, shared_bytes);
}

void barrier() {
  if (counter == nullptr) return;
  ++counter->counts.barriers;
  replay_all(*counter);
}

void meet(unsigned warp) {
  if (counter != nullptr) replay(*counter, warp);
}

void shuffle() {
  if (counter != nullptr) ++counter->counts.shuffles;
}

void tile_product(unsigned multiply_adds) {
  if (counter == nullptr) return;
  ++counter->counts.tile_products;
  counter->counts.tile_multiply_adds += multiply_adds;
}

void access(bool shared, bool store, const void* address, size_t bytes, const void* caller) {
  if (counter == nullptr) return;
  const unsigned thread = running();
  const auto kind = shared ? (store ? Event::Kind::kSharedStore : Event::Kind::kSharedLoad)
                           : (store ? Event::Kind::kStore : Event::Kind::kLoad);
  counter->records[thread].push_back(
      {caller, reinterpret_cast<uint64_t>(address), static_cast<uint32_t>(bytes), counter->depths[thread], kind});
}

void basic_block(const void* caller) {
  if (counter == nullptr || running_block == nullptr || running_thread == nullptr) return;
  const unsigned thread = running();
  counter->records[thread].push_back({caller, 0, 0, counter->depths[thread], Event::Kind::kBasicBlock});
}

void enter() {
  if (counter != nullptr && running_thread != nullptr) ++counter->depths[running()];
}
void leave() {
  if (counter != nullptr && running_thread != nullptr) --counter->depths[running()];
}

}  // namespace counting

float fmaf(float a, float b, float c) {
  if (counter != nullptr) ++counter->counts.multiply_adds;
  return std::fma(a, b, c);
}

}  // namespace folio::infer::gpu::host
