// Who holds which block of the KV cache: a block table and a length for each sequence, and a reference count for each
// block, so that sequences share a common prefix. Bookkeeping on the host, the same for every machine; what is in a
// block is the machine's. A shared block is copied before it is written: reserve() lists the copies, a machine does
// them. What was reserved is undone by roll_back() until commit() makes it count, so a step that fails leaves no trace.
// A full block whose tokens were told is found again by them, and so is a text's last block that was remembered as its
// tail, also when nobody holds it any more (prefix_index.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/cache/prefix_index.h"

namespace folio::infer {

using SequenceId = int32_t;

/// Positions that are held in blocks: whole blocks, the last one perhaps not full.
[[nodiscard]] constexpr int64_t blocks_for(int64_t n_positions) {
  return (n_positions + kBlockPositions - 1) / kBlockPositions;
}

/// Copy-on-write: the content of `from` goes to `to` before the step's first operation.
struct BlockCopy {
  BlockId from;
  BlockId to;
};

class BlockManager {
 public:
  /// Blocks have the ids 0 to n_blocks - 1; small ones are handed out first.
  explicit BlockManager(int64_t n_blocks) : n_blocks_(n_blocks) {}

  /// One whose keys and values `adapter` computes: it shares blocks only with others of that adapter.
  [[nodiscard]] SequenceId add_sequence(int32_t adapter = kNoAdapter);
  /// A new sequence that shares all blocks of `parent`.
  [[nodiscard]] SequenceId fork(SequenceId parent);
  void release(SequenceId sequence);
  /// Forgets all positions from n_positions on.
  void truncate(SequenceId sequence, int64_t n_positions);

  [[nodiscard]] int32_t adapter(SequenceId sequence) const { return at(sequence).adapter; }
  [[nodiscard]] int64_t length(SequenceId sequence) const { return at(sequence).length; }
  /// The blocks of the sequence's positions in order, those reserved included. Valid until the next change.
  [[nodiscard]] std::span<const BlockId> table(SequenceId sequence) const { return at(sequence).table; }

  [[nodiscard]] int64_t n_blocks() const { return n_blocks_; }
  [[nodiscard]] int64_t blocks_in_use() const { return in_use_; }
  /// That nobody holds. Some may be cached: they are handed out last, the longest unused first.
  [[nodiscard]] int64_t free_blocks() const { return n_blocks_ - in_use_; }
  /// How many free blocks reserve(sequence, count) takes, copies included.
  [[nodiscard]] int64_t blocks_needed(SequenceId sequence, int64_t count) const;

  /// Makes the `count` positions behind the sequence's length writable. Throws core::Error if the free blocks are too
  /// few; then, too, what was reserved before waits for commit() or roll_back().
  void reserve(SequenceId sequence, int64_t count);
  /// `sequence`, which is empty, shares the cached blocks that hold the first of `tokens`: the longest chain of whole
  /// blocks, and a tail behind it. Returns its new length.
  int64_t share_prefix(SequenceId sequence, std::span<const int32_t> tokens);
  /// `tokens` are those of the sequence's first positions, which were computed: its full blocks are cached from now on.
  void remember(SequenceId sequence, std::span<const int32_t> tokens);
  /// `tokens` are those of all of its positions, and it is about to be released: the last block, which is not full, can
  /// be found until somebody goes on from it.
  void remember_tail(SequenceId sequence, std::span<const int32_t> tokens);
  /// How many of the first `tokens` share_prefix() would find, and in how many blocks that nobody holds.
  struct Prefix {
    int64_t length = 0;
    int64_t free_blocks = 0;
  };
  [[nodiscard]] Prefix find_prefix(std::span<const int32_t> tokens, int32_t adapter = kNoAdapter) const;

  /// The copies that a machine has to do before it writes what was reserved.
  [[nodiscard]] std::span<const BlockCopy> copies() const { return copies_; }
  /// The reserved positions count from now on.
  void commit();
  /// Lengths and tables are again what they were before the first reserve() since the last commit().
  void roll_back();

 private:
  struct Sequence {
    bool live = false;
    int32_t adapter = kNoAdapter;
    int64_t length = 0;
    std::vector<BlockId> table;
    size_t n_cached = 0;  ///< blocks of the table that remember() has cached
  };
  // One reserve() that is not committed.
  struct Reserved {
    SequenceId sequence;
    int64_t count;
    size_t table_size;  ///< before it
  };
  // A shared block that a reserve() replaced by a copy. Its reference is kept until the commit, so that nobody else
  // writes it in place meanwhile.
  struct Replaced {
    SequenceId sequence;
    size_t index;  ///< in the table
    BlockId original;
  };

  [[nodiscard]] Sequence& at(SequenceId sequence);
  [[nodiscard]] const Sequence& at(SequenceId sequence) const;
  // What the cache holds of the first tokens.
  struct Known {
    std::vector<BlockId> blocks{};  ///< full ones
    PrefixIndex::Tail tail{};
  };
  [[nodiscard]] Known find_known(std::span<const int32_t> tokens, int32_t adapter) const;
  [[nodiscard]] bool shared(BlockId block) const { return references_[static_cast<size_t>(block)] > 1; }
  void hold(BlockId block);
  BlockId take_block();
  void drop_block(BlockId block);
  void forget_reserved();

  int64_t n_blocks_;
  int64_t in_use_ = 0;
  std::vector<int32_t> references_;  ///< of each block that was ever handed out
  std::vector<BlockId> free_;        ///< of those, the ones that nobody holds and that are not cached
  PrefixIndex prefixes_;             ///< and those that are cached
  std::vector<Sequence> sequences_;
  std::vector<Reserved> reserved_;
  std::vector<Replaced> replaced_;
  std::vector<BlockCopy> copies_;
};

}  // namespace folio::infer
