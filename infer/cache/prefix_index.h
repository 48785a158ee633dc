// Which blocks of the KV cache hold which tokens. A full block is found by the block before it and by its own tokens,
// which are compared in full: no two prefixes are ever taken for each other. A text's last block, its tail, may be
// found too. An adapter's blocks begin at a root of their own. Of blocks that nobody holds it keeps the order in which
// they were left. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
// 2023.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace folio::infer {

using BlockId = int32_t;

inline constexpr int64_t kBlockPositions = 32;  ///< positions in one block

/// In the place of an adapter's number: the model by itself.
inline constexpr int32_t kNoAdapter = -1;

class PrefixIndex {
 public:
  /// The longest chain of cached blocks that holds the first of `tokens`, as `adapter` computes them.
  [[nodiscard]] std::vector<BlockId> find(std::span<const int32_t> tokens, int32_t adapter) const;
  /// The first full blocks of `table` hold `tokens`. Where another cached block holds the same, it stays.
  void add(std::span<const BlockId> table, std::span<const int32_t> tokens, int32_t adapter);

  /// A cached block that is not full.
  struct Tail {
    BlockId block = -1;  ///< there is none
    size_t n_tokens = 0;
  };
  /// Behind `chain`, which find() returned for the beginning of `tokens`: the longest tail of which all tokens come
  /// next and which `is_free`.
  [[nodiscard]] Tail find_tail(std::span<const BlockId> chain, std::span<const int32_t> tokens, int32_t adapter,
                               const std::function<bool(BlockId)>& is_free) const;
  /// `block`, which somebody holds, holds the last of `tokens`, which fill no block, behind the full blocks that hold
  /// the others and are cached.
  void add_tail(BlockId block, std::span<const int32_t> tokens, int32_t adapter);

  [[nodiscard]] bool is_cached(BlockId block) const;
  /// Nobody holds the cached block from now on. Blocks are left from the end of a text to its beginning, since one is
  /// found only through those before it.
  void leave(BlockId block);
  /// Somebody holds the cached block again.
  void take(BlockId block);
  /// The block, which somebody holds, is not cached any more. Nothing happens if it was not.
  void forget(BlockId block);
  /// Forgets the block that was left longest ago, of which there has to be one, and returns it.
  BlockId forget_oldest();

 private:
  using Tokens = std::array<int32_t, kBlockPositions>;
  // A text up to the end of a block. Numbers are never used again, so those that follow a forgotten text are not found.
  using TextId = uint64_t;
  static constexpr TextId kBeginning = 0;
  [[nodiscard]] static constexpr TextId root_of(int32_t adapter) {
    return adapter < 0 ? kBeginning : TextId{1} << 63U | static_cast<TextId>(adapter);
  }

  struct Entry {
    TextId text = kBeginning;  ///< kBeginning: not cached
    TextId before = kBeginning;
    size_t n_tail = 0;  ///< of a tail: its tokens. It is found by no tokens of its own
    Tokens tokens{};
    BlockId older = -1;  ///< neighbours among those that nobody holds
    BlockId newer = -1;
  };

  [[nodiscard]] static uint64_t key_of(TextId before, std::span<const int32_t> tokens);
  [[nodiscard]] BlockId next(TextId before, std::span<const int32_t> tokens) const;
  void enter(BlockId block, TextId before, std::span<const int32_t> tokens, bool tail);
  [[nodiscard]] Entry& at(BlockId block) { return entries_[static_cast<size_t>(block)]; }
  [[nodiscard]] const Entry& at(BlockId block) const { return entries_[static_cast<size_t>(block)]; }

  std::vector<Entry> entries_;  ///< by block
  std::unordered_multimap<uint64_t, BlockId> by_key_;
  TextId n_texts_ = kBeginning;
  BlockId oldest_ = -1;
  BlockId newest_ = -1;
};

}  // namespace folio::infer
