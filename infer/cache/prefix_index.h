// Prefix cache: maps token prefixes to KV cache blocks. A full block is found by its predecessor and its own tokens,
// which are compared in full, so hash collisions cannot mix up prefixes. A sequence's partial last block, its tail, can
// be cached too. Each adapter has a separate root. Free blocks are kept in LRU order. See Kwon et al., "Efficient
// Memory Management for Large Language Model Serving with PagedAttention", 2023.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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
  /// Returns the longest chain of full blocks, cached for `adapter`, whose tokens match the beginning of `tokens`.
  [[nodiscard]] std::vector<BlockId> find(std::span<const int32_t> tokens, int32_t adapter) const;
  /// Caches the full blocks of `table`, whose positions contain `tokens`. For a prefix that is already cached, keeps
  /// the cached block.
  void add(std::span<const BlockId> table, std::span<const int32_t> tokens, int32_t adapter);

  /// A cached block that is partly filled, and the number of its tokens.
  struct Tail {
    BlockId block = -1;  ///< -1: no tail
    size_t n_tokens = 0;
  };
  /// Returns the partly filled block with the most tokens that continues `chain`, the result of find() for `tokens`,
  /// matches the next tokens and satisfies `is_free`.
  [[nodiscard]] Tail find_tail(std::span<const BlockId> chain, std::span<const int32_t> tokens, int32_t adapter,
                               const std::function<bool(BlockId)>& is_free) const;
  /// Caches `block`, the partly filled last block of `tokens`. Does nothing if a full block before it is not cached.
  void add_tail(BlockId block, std::span<const int32_t> tokens, int32_t adapter);

  [[nodiscard]] bool is_cached(BlockId block) const;
  /// Marks a cached block as free. Callers must free a sequence's blocks from last to first, so that a block is evicted
  /// before its predecessors, through which it is found.
  void leave(BlockId block);
  /// Marks a cached block as in use again.
  void take(BlockId block);
  /// Removes a block that is in use from the cache. Does nothing if it is not cached.
  void forget(BlockId block);
  /// Evicts the least recently used free block and returns it. Throws core::Error if no cached block is free.
  BlockId forget_oldest();

 private:
  using Tokens = std::array<int32_t, kBlockPositions>;
  // The id of a prefix that ends with a block. Ids are not reused, so successors of an evicted block aren't found.
  using TextId = uint64_t;
  static constexpr TextId kBeginning = 0;
  [[nodiscard]] static constexpr TextId root_of(int32_t adapter) {
    return adapter < 0 ? kBeginning : TextId{1} << 63U | static_cast<TextId>(adapter);
  }

  struct Entry {
    TextId text = kBeginning;  ///< the prefix that ends with this block; kBeginning: the block is not cached
    TextId before = kBeginning;
    size_t n_tail = 0;  ///< number of tokens in a partly filled block; 0: the block is full
    Tokens tokens{};
    BlockId older = -1;  ///< neighbors in the LRU list of free blocks; -1: none
    BlockId newer = -1;
  };

  [[nodiscard]] static uint64_t key_of(TextId before, std::span<const int32_t> tokens);
  [[nodiscard]] BlockId next(TextId before, std::span<const int32_t> tokens) const;
  void enter(BlockId block, TextId before, std::span<const int32_t> tokens, bool tail);
  [[nodiscard]] Entry& at(BlockId block) { return entries_[static_cast<size_t>(block)]; }
  [[nodiscard]] const Entry& at(BlockId block) const { return entries_[static_cast<size_t>(block)]; }

  std::vector<Entry> entries_;  ///< indexed by block id
  std::unordered_multimap<uint64_t, BlockId> by_key_;
  TextId n_texts_ = kBeginning;
  BlockId oldest_ = -1;
  BlockId newest_ = -1;
};

}  // namespace folio::infer
