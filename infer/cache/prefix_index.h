// Which full blocks of the KV cache hold which tokens. A block is known by the block before it and by its own tokens,
// which are compared in full: no two prefixes are ever taken for each other. Of the blocks that nobody holds it knows
// for how long. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace folio::infer {

using BlockId = int32_t;

inline constexpr int64_t kBlockPositions = 32;  ///< positions in one block

class PrefixIndex {
 public:
  /// The longest chain of known blocks that holds the first of `tokens`.
  [[nodiscard]] std::vector<BlockId> find(std::span<const int32_t> tokens) const;
  /// The first full blocks of `table` hold `tokens`. Where another block is known by the same, it stays.
  void add(std::span<const BlockId> table, std::span<const int32_t> tokens);

  [[nodiscard]] bool knows(BlockId block) const;
  /// Nobody holds the known block from now on. Blocks are left from the end of a text to its beginning, since one is
  /// found only through those before it.
  void leave(BlockId block);
  /// Somebody holds the known block again.
  void take(BlockId block);
  /// What the block holds is not known any more; somebody holds it. Nothing happens if it was not known.
  void forget(BlockId block);
  /// Forgets the block that was left longest ago, of which there has to be one, and returns it.
  BlockId forget_oldest();

 private:
  using Tokens = std::array<int32_t, kBlockPositions>;
  // A text up to the end of a block. Numbers are never used again, so those that follow a forgotten text are not found.
  using TextId = uint64_t;
  static constexpr TextId kBeginning = 0;

  struct Known {
    TextId text = kBeginning;  ///< kBeginning: nothing is known
    TextId before = kBeginning;
    Tokens tokens{};
    BlockId older = -1;  ///< neighbours among those that nobody holds
    BlockId newer = -1;
  };

  [[nodiscard]] static uint64_t key_of(TextId before, std::span<const int32_t> tokens);
  [[nodiscard]] BlockId next(TextId before, std::span<const int32_t> tokens) const;
  [[nodiscard]] Known& at(BlockId block) { return known_[static_cast<size_t>(block)]; }
  [[nodiscard]] const Known& at(BlockId block) const { return known_[static_cast<size_t>(block)]; }

  std::vector<Known> known_;  ///< by block
  std::unordered_multimap<uint64_t, BlockId> by_key_;
  TextId n_texts_ = kBeginning;
  BlockId oldest_ = -1;
  BlockId newest_ = -1;
};

}  // namespace folio::infer
