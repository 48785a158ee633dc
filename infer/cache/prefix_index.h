// Prefix cache: maps token prefixes to KV cache blocks. A full block is found by its predecessor and its own tokens,
// which are compared in full, so hash collisions cannot mix up prefixes. A sequence's partial last block, its tail, can
// be cached too. Each adapter has a separate root. Free blocks are kept in LRU order. See Kwon et al., "Efficient
// Memory Management for Large Language Model Serving with PagedAttention", 2023.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace folio::infer {

using BlockId = int32_t;

inline constexpr int64_t kBlockPositions = 32;  ///< positions per block

/// The adapter id of sequences that use the base model without an adapter.
inline constexpr int32_t kNoAdapter = -1;

class PrefixIndex {
 public:
  /// The cached blocks of a prefix: full ones, then possibly a partly filled one, the tail.
  struct Known {
    std::vector<BlockId> blocks{};
    int64_t n_positions = 0;  ///< number of tokens in all blocks
  };
  /// Returns the longest chain of full blocks, cached for `adapter`, whose tokens match the beginning of `tokens`, then
  /// the longest free tail that matches the next tokens.
  [[nodiscard]] Known find(std::span<const int32_t> tokens, int32_t adapter) const;
  /// Caches the full blocks of `table`, whose positions contain `tokens`. For a prefix that is already cached, keeps
  /// the cached block.
  void add(std::span<const BlockId> table, std::span<const int32_t> tokens, int32_t adapter);

  /// Caches `block`, the partly filled last block of `tokens`. Does nothing if a full block before it is not cached.
  void add_tail(BlockId block, std::span<const int32_t> tokens, int32_t adapter);

  [[nodiscard]] bool is_cached(BlockId block) const;
  /// Marks a cached block as free. Callers must free a sequence's blocks from last to first, so that a block is evicted
  /// before its predecessors, through which it is found.
  void add_free(BlockId block);
  /// Marks a cached block as in use again.
  void remove_free(BlockId block);
  /// Removes a block that is in use from the cache. Does nothing if it is not cached.
  void erase(BlockId block);
  /// Evicts the least recently used free block and returns it. Throws core::Error if no cached block is free.
  BlockId evict_oldest();

 private:
  // The id of a prefix that ends with a block. Ids are not reused, so successors of an evicted block aren't found.
  using PrefixId = uint64_t;
  static constexpr PrefixId kEmptyPrefix = 0;
  [[nodiscard]] static constexpr PrefixId root_of(int32_t adapter) {
    return adapter < 0 ? kEmptyPrefix : PrefixId{1} << 63U | static_cast<PrefixId>(adapter);
  }

  struct Entry {
    PrefixId prefix = kEmptyPrefix;  ///< the prefix that ends with this block; kEmptyPrefix: the block is not cached
    PrefixId before = kEmptyPrefix;
    size_t n_tokens = 0;  ///< fewer than kBlockPositions in a tail
    std::array<int32_t, kBlockPositions> tokens{};
    bool is_free = false;  ///< in the LRU list
    BlockId older = -1;    ///< neighbors in the LRU list; -1: none
    BlockId newer = -1;

    [[nodiscard]] std::span<const int32_t> own_tokens() const { return std::span(tokens).first(n_tokens); }
  };

  [[nodiscard]] static uint64_t key_of(PrefixId before, std::span<const int32_t> tokens);
  [[nodiscard]] BlockId next(PrefixId before, std::span<const int32_t> tokens) const;
  void insert(BlockId block, PrefixId before, std::span<const int32_t> tokens);
  [[nodiscard]] Entry& at(BlockId block) { return entries_[static_cast<size_t>(block)]; }
  [[nodiscard]] const Entry& at(BlockId block) const { return entries_[static_cast<size_t>(block)]; }

  std::vector<Entry> entries_;  ///< indexed by block id
  std::unordered_multimap<uint64_t, BlockId> by_key_;
  PrefixId n_prefixes_ = kEmptyPrefix;
  BlockId oldest_ = -1;
  BlockId newest_ = -1;
};

}  // namespace folio::infer
