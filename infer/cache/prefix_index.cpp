#include "infer/cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

constexpr auto kBlockTokens = static_cast<size_t>(kBlockPositions);

}  // namespace

// Returns the hash of a full block's predecessor and tokens, with SplitMix64's finalizer (Steele et al. 2014) per
// token. All tails of a prefix have the same key, the prefix's id.
uint64_t PrefixIndex::key_of(PrefixId before, std::span<const int32_t> tokens) {
  if (tokens.size() < kBlockTokens) return before;
  uint64_t key = before;
  for (const int32_t token : tokens) {
    key += 0x9E3779B97F4A7C15ULL + static_cast<uint32_t>(token);
    key = (key ^ (key >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    key = (key ^ (key >> 27U)) * 0x94D049BB133111EBULL;
    key ^= key >> 31U;
  }
  return key;
}

BlockId PrefixIndex::next(PrefixId before, std::span<const int32_t> tokens) const {
  const auto [first, last] = by_key_.equal_range(key_of(before, tokens));
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    const Entry& cached = at(entry.second);
    return cached.before == before && std::ranges::equal(tokens, cached.own_tokens());
  });
  return found == last ? -1 : found->second;
}

PrefixIndex::Known PrefixIndex::find(std::span<const int32_t> tokens, int32_t adapter) const {
  Known known;
  PrefixId prefix = root_of(adapter);
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    const BlockId block = next(prefix, tokens.first(kBlockTokens));
    if (block < 0) break;
    known.blocks.push_back(block);
    prefix = at(block).prefix;
  }
  const Entry* tail = nullptr;
  const auto [first, last] = by_key_.equal_range(prefix);
  for (const auto& [key, block] : std::ranges::subrange(first, last)) {
    const Entry& cached = at(block);
    const auto own = cached.own_tokens();
    if (!cached.is_free || cached.before != prefix || own.size() > std::min(tokens.size(), kBlockTokens - 1)) continue;
    if (tail != nullptr && own.size() <= tail->n_tokens) continue;
    if (std::ranges::equal(own, tokens.first(own.size()))) tail = &cached;
  }
  known.n_positions = static_cast<int64_t>(known.blocks.size() * kBlockTokens);
  if (tail == nullptr) return known;
  known.blocks.push_back(static_cast<BlockId>(tail - entries_.data()));
  known.n_positions += static_cast<int64_t>(tail->n_tokens);
  return known;
}

void PrefixIndex::add(std::span<const BlockId> table, std::span<const int32_t> tokens, int32_t adapter) {
  PrefixId prefix = root_of(adapter);
  for (size_t i = 0; (i + 1) * kBlockTokens <= tokens.size(); ++i) {
    const auto own = tokens.subspan(i * kBlockTokens, kBlockTokens);
    BlockId block = next(prefix, own);
    if (block < 0) {
      block = table[i];
      erase(block);  // `block` may be cached for a prefix whose earlier blocks were evicted
      insert(block, prefix, own);
    }
    prefix = at(block).prefix;
  }
}

void PrefixIndex::insert(BlockId block, PrefixId before, std::span<const int32_t> tokens) {
  if (entries_.size() <= static_cast<size_t>(block)) entries_.resize(static_cast<size_t>(block) + 1);
  by_key_.emplace(key_of(before, tokens), block);
  Entry& cached = at(block);
  cached.prefix = ++n_prefixes_;
  cached.before = before;
  cached.n_tokens = tokens.size();
  std::ranges::copy(tokens, cached.tokens.begin());
}

void PrefixIndex::add_tail(BlockId block, std::span<const int32_t> tokens, int32_t adapter) {
  const Known known = find(tokens, adapter);
  const size_t n_full = static_cast<size_t>(known.n_positions) / kBlockTokens;
  const auto own = tokens.subspan(n_full * kBlockTokens);
  if (is_cached(block) || own.size() >= kBlockTokens) return;  // already cached, or an earlier full block isn't
  insert(block, n_full == 0 ? root_of(adapter) : at(known.blocks[n_full - 1]).prefix, own);
}

bool PrefixIndex::is_cached(BlockId block) const {
  return static_cast<size_t>(block) < entries_.size() && at(block).prefix != kEmptyPrefix;
}

void PrefixIndex::add_free(BlockId block) {
  Entry& cached = at(block);
  cached.older = std::exchange(newest_, block);
  cached.newer = -1;
  cached.is_free = true;
  (cached.older < 0 ? oldest_ : at(cached.older).newer) = block;
}

void PrefixIndex::remove_free(BlockId block) {
  Entry& cached = at(block);
  cached.is_free = false;
  (cached.older < 0 ? oldest_ : at(cached.older).newer) = cached.newer;
  (cached.newer < 0 ? newest_ : at(cached.newer).older) = cached.older;
}

void PrefixIndex::erase(BlockId block) {
  if (!is_cached(block)) return;
  Entry& cached = at(block);
  const auto [first, last] = by_key_.equal_range(key_of(cached.before, cached.own_tokens()));
  by_key_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == block; }));
  cached.prefix = kEmptyPrefix;
}

BlockId PrefixIndex::evict_oldest() {
  core::require(oldest_ >= 0, "no cached block is free");
  const BlockId block = oldest_;
  remove_free(block);
  erase(block);
  return block;
}

}  // namespace folio::infer
