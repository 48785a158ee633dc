#include "infer/cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

constexpr auto kWhole = static_cast<size_t>(kBlockPositions);

}  // namespace

// SplitMix64's finalizer (Steele et al. 2014) over one number after the other.
uint64_t PrefixIndex::key_of(TextId before, std::span<const int32_t> tokens) {
  uint64_t key = before;
  for (const int32_t token : tokens) {
    key += 0x9E3779B97F4A7C15ULL + static_cast<uint32_t>(token);
    key = (key ^ (key >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    key = (key ^ (key >> 27U)) * 0x94D049BB133111EBULL;
    key ^= key >> 31U;
  }
  return key;
}

BlockId PrefixIndex::next(TextId before, std::span<const int32_t> tokens) const {
  const auto [first, last] = by_key_.equal_range(key_of(before, tokens));
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    const Entry& cached = at(entry.second);
    return cached.before == before && std::equal(tokens.begin(), tokens.end(), cached.tokens.begin());
  });
  return found == last ? -1 : found->second;
}

std::vector<BlockId> PrefixIndex::find(std::span<const int32_t> tokens, int32_t adapter) const {
  std::vector<BlockId> chain;
  TextId text = root_of(adapter);
  for (; tokens.size() >= kWhole; tokens = tokens.subspan(kWhole)) {
    const BlockId block = next(text, tokens.first(kWhole));
    if (block < 0) break;
    chain.push_back(block);
    text = at(block).text;
  }
  return chain;
}

void PrefixIndex::add(std::span<const BlockId> table, std::span<const int32_t> tokens, int32_t adapter) {
  TextId text = root_of(adapter);
  for (size_t i = 0; (i + 1) * kWhole <= tokens.size(); ++i) {
    const auto own = tokens.subspan(i * kWhole, kWhole);
    BlockId block = next(text, own);
    if (block < 0) {
      block = table[i];
      forget(block);  // it followed a text that was forgotten
      if (entries_.size() <= static_cast<size_t>(block)) entries_.resize(static_cast<size_t>(block) + 1);
      by_key_.emplace(key_of(text, own), block);
      Entry& cached = at(block);
      cached.text = ++n_texts_;
      cached.before = text;
      std::copy(own.begin(), own.end(), cached.tokens.begin());
    }
    text = at(block).text;
  }
}

bool PrefixIndex::is_cached(BlockId block) const {
  return static_cast<size_t>(block) < entries_.size() && at(block).text != kBeginning;
}

void PrefixIndex::leave(BlockId block) {
  Entry& cached = at(block);
  cached.older = std::exchange(newest_, block);
  cached.newer = -1;
  (cached.older < 0 ? oldest_ : at(cached.older).newer) = block;
}

void PrefixIndex::take(BlockId block) {
  const Entry& cached = at(block);
  (cached.older < 0 ? oldest_ : at(cached.older).newer) = cached.newer;
  (cached.newer < 0 ? newest_ : at(cached.newer).older) = cached.older;
}

void PrefixIndex::forget(BlockId block) {
  if (!is_cached(block)) return;
  Entry& cached = at(block);
  const auto [first, last] = by_key_.equal_range(key_of(cached.before, cached.tokens));
  by_key_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == block; }));
  cached.text = kBeginning;
}

BlockId PrefixIndex::forget_oldest() {
  core::require(oldest_ >= 0, "no cached block is held by nobody");
  const BlockId block = oldest_;
  take(block);
  forget(block);
  return block;
}

}  // namespace folio::infer
