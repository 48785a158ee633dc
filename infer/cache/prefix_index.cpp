#include "infer/cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

constexpr auto kWhole = static_cast<size_t>(kBlockPositions);

}  // namespace

// Returns the hash of a block's predecessor and tokens. Applies SplitMix64's finalizer (Steele et al. 2014) per token.
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
    return cached.n_tail == 0 && cached.before == before &&
           std::equal(tokens.begin(), tokens.end(), cached.tokens.begin());
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
      forget(block);  // `block` may be cached for a prefix whose earlier blocks were evicted
      enter(block, text, own, false);
    }
    text = at(block).text;
  }
}

void PrefixIndex::enter(BlockId block, TextId before, std::span<const int32_t> tokens, bool tail) {
  if (entries_.size() <= static_cast<size_t>(block)) entries_.resize(static_cast<size_t>(block) + 1);
  by_key_.emplace(key_of(before, tail ? std::span<const int32_t>{} : tokens), block);
  Entry& cached = at(block);
  cached.text = ++n_texts_;
  cached.before = before;
  cached.n_tail = tail ? tokens.size() : 0;
  std::ranges::copy(tokens, cached.tokens.begin());
}

PrefixIndex::Tail PrefixIndex::find_tail(std::span<const BlockId> chain, std::span<const int32_t> tokens,
                                         int32_t adapter, const std::function<bool(BlockId)>& is_free) const {
  const TextId before = chain.empty() ? root_of(adapter) : at(chain.back()).text;
  const auto next = tokens.subspan(chain.size() * kWhole);
  Tail longest;
  const auto [first, last] = by_key_.equal_range(key_of(before, {}));
  for (auto entry = first; entry != last; ++entry) {
    const Entry& cached = at(entry->second);
    const auto own = std::span<const int32_t>(cached.tokens).first(cached.n_tail);
    if (own.size() <= longest.n_tokens || own.size() > next.size() || cached.before != before) continue;
    if (std::ranges::equal(own, next.first(own.size())) && is_free(entry->second)) {
      longest = {.block = entry->second, .n_tokens = own.size()};
    }
  }
  return longest;
}

void PrefixIndex::add_tail(BlockId block, std::span<const int32_t> tokens, int32_t adapter) {
  const std::vector<BlockId> chain = find(tokens, adapter);
  const size_t n_before = chain.size() * kWhole;
  if (is_cached(block) || tokens.size() - n_before >= kWhole)
    return;  // `block` is already cached, or an earlier full block isn't
  enter(block, chain.empty() ? root_of(adapter) : at(chain.back()).text, tokens.subspan(n_before), true);
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
  const auto own = cached.n_tail > 0 ? std::span<const int32_t>{} : std::span<const int32_t>(cached.tokens);
  const auto [first, last] = by_key_.equal_range(key_of(cached.before, own));
  by_key_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == block; }));
  cached.text = kBeginning;
}

BlockId PrefixIndex::forget_oldest() {
  core::require(oldest_ >= 0, "no cached block is free");
  const BlockId block = oldest_;
  take(block);
  forget(block);
  return block;
}

}  // namespace folio::infer
