#include "experiments/15_kv_cache/paging.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "infer/cache/block_manager.h"

namespace folio::experiments {

std::vector<Sequence> running_sequences(const Lengths& lengths, int64_t count, double mean, int64_t context,
                                        uint64_t seed) {
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = static_cast<uint64_t>(2 * i);
    const double length = lengths.quantile(core::random_uniform(seed, draw), mean);
    const int64_t final = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(length)), 1, context);
    const auto now = 1 + static_cast<int64_t>(core::random_below(seed, draw + 1, static_cast<uint64_t>(final)));
    sequences.push_back({.now = now, .final = final});
  }
  return sequences;
}

int64_t engine_blocks(const std::vector<Sequence>& sequences) {
  infer::BlockManager cache(int64_t{1} << 20U);
  for (const Sequence& s : sequences) {
    const infer::SequenceId sequence = cache.add_sequence();
    for (int64_t position = 0; position < s.now; ++position) {  // one position at a time, as in decoding
      cache.reserve(sequence, 1);
      cache.commit();
    }
  }
  return cache.blocks_in_use();
}

Shared engine_blocks_of_shared_prompt(int64_t prompt, int64_t count) {
  infer::BlockManager cache(int64_t{1} << 20U);
  const infer::SequenceId first = cache.add_sequence();
  cache.reserve(first, prompt);
  cache.commit();
  Shared shared;
  for (int64_t i = 0; i < count; ++i) {
    const infer::SequenceId continued = cache.fork(first);
    cache.reserve(continued, 1);
    shared.copies += static_cast<int64_t>(cache.copies().size());
    cache.commit();
  }
  shared.blocks = cache.blocks_in_use();
  return shared;
}

}  // namespace folio::experiments
