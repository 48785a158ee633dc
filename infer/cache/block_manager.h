// Paged KV cache bookkeeping on the host: a block table and a length per sequence, a reference count per block. The
// execution backend (Machine) stores the blocks' contents. Shared blocks are copied on write: reserve() lists the
// copies and the backend executes them. commit() adds reserved positions to their sequence;
// roll_back() discards them, so a failed step changes nothing. Full blocks and partial last blocks are cached for later
// sequences with the same prefix, even after their sequence is released (prefix_index.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/cache/prefix_index.h"

namespace folio::infer {

using SequenceId = int32_t;

/// Returns the number of blocks that n_positions occupy; the last one may be partly filled.
[[nodiscard]] constexpr int64_t blocks_for(int64_t n_positions) {
  return (n_positions + kBlockPositions - 1) / kBlockPositions;
}

/// A copy-on-write: the backend copies block `from` to block `to` before the step's first operation.
struct BlockCopy {
  BlockId from;
  BlockId to;
};

class BlockManager {
 public:
  /// Creates `n_blocks` free blocks with the ids 0 to n_blocks - 1; low ids are allocated first.
  explicit BlockManager(int64_t n_blocks) : n_blocks_(n_blocks) {}

  /// Adds an empty sequence whose keys and values are computed with `adapter`. Sequences share blocks only if they have
  /// the same adapter.
  [[nodiscard]] SequenceId add_sequence(int32_t adapter = kNoAdapter);
  /// Adds a sequence with the same positions as `parent`. The two share all blocks, which are copied on write.
  [[nodiscard]] SequenceId fork(SequenceId parent);
  void release(SequenceId sequence);
  /// Shortens the sequence to its first n_positions positions. Throws core::Error while positions are reserved.
  void truncate(SequenceId sequence, int64_t n_positions);

  [[nodiscard]] int32_t adapter(SequenceId sequence) const { return at(sequence).adapter; }
  [[nodiscard]] int64_t length(SequenceId sequence) const { return at(sequence).length; }
  /// Returns the sequence's blocks in order of position, including reserved ones. Valid until the sequence changes.
  [[nodiscard]] std::span<const BlockId> table(SequenceId sequence) const { return at(sequence).table; }

  [[nodiscard]] int64_t n_blocks() const { return n_blocks_; }
  [[nodiscard]] int64_t blocks_in_use() const { return in_use_; }
  /// Returns the number of blocks that no sequence uses. Cached ones are allocated last, in LRU order.
  [[nodiscard]] int64_t free_blocks() const { return n_blocks_ - in_use_; }
  /// Returns the number of free blocks that reserve(sequence, count) allocates, including copies.
  [[nodiscard]] int64_t blocks_needed(SequenceId sequence, int64_t count) const;

  /// Makes the next `count` positions of the sequence writable, until commit() or roll_back(). If there are too few
  /// free blocks, throws core::Error, and the caller must call roll_back().
  void reserve(SequenceId sequence, int64_t count);
  /// Lets the empty `sequence` share the cached blocks of the longest known prefix of `tokens`: full blocks, then
  /// possibly a partial one that no sequence uses, since its sequence could append to it. Returns the new length.
  int64_t share_prefix(SequenceId sequence, std::span<const int32_t> tokens);
  /// Caches the sequence's full blocks for share_prefix(). `tokens` are the tokens of the sequence's first positions,
  /// whose keys and values must have been computed.
  void remember(SequenceId sequence, std::span<const int32_t> tokens);
  /// Caches the partial last block of a sequence that is about to be released. `tokens` are the tokens of all its
  /// positions. share_prefix() finds the block until it is evicted or another sequence appends to it.
  void remember_tail(SequenceId sequence, std::span<const int32_t> tokens);
  /// A prefix that share_prefix() can reuse: its length in positions, and how many of its blocks no sequence uses.
  struct Prefix {
    int64_t length = 0;
    int64_t free_blocks = 0;
  };
  [[nodiscard]] Prefix find_prefix(std::span<const int32_t> tokens, int32_t adapter = kNoAdapter) const;

  /// Returns the block copies that the backend must execute before it writes reserved positions.
  [[nodiscard]] std::span<const BlockCopy> copies() const { return copies_; }
  /// Adds the reserved positions to the lengths of their sequences.
  void commit();
  /// Undoes all reserve() calls since the last commit().
  void roll_back();

 private:
  struct Sequence {
    bool live = false;
    int32_t adapter = kNoAdapter;
    int64_t length = 0;
    std::vector<BlockId> table;
    size_t n_cached = 0;  ///< number of leading blocks of the table that are in the prefix cache
  };
  // One reserve() call that is not yet committed.
  struct Reserved {
    SequenceId sequence;
    int64_t count;
    size_t table_size;  ///< blocks in the sequence's table before the call
  };
  // A shared block that reserve() replaced by a copy. The original keeps its reference until commit(), so that no other
  // sequence writes to it in place.
  struct Replaced {
    SequenceId sequence;
    size_t index;  ///< index in the block table
    BlockId original;
  };

  [[nodiscard]] Sequence& at(SequenceId sequence);
  [[nodiscard]] const Sequence& at(SequenceId sequence) const;
  [[nodiscard]] bool shared(BlockId block) const { return references_[static_cast<size_t>(block)] > 1; }
  void add_reference(BlockId block);
  BlockId allocate_block();
  void drop_reference(BlockId block);
  void clear_reserved();

  int64_t n_blocks_;
  int64_t in_use_ = 0;
  std::vector<int32_t> references_;  ///< reference counts of all blocks allocated so far, by block id
  std::vector<BlockId> free_;        ///< free blocks that are not in the prefix cache
  PrefixIndex prefixes_;             ///< cached blocks, free or in use
  std::vector<Sequence> sequences_;
  std::vector<Reserved> reserved_;
  std::vector<Replaced> replaced_;
  std::vector<BlockCopy> copies_;
};

/// A sequence that is released at the end of a scope.
class ScopedSequence {
 public:
  explicit ScopedSequence(BlockManager& cache, int32_t adapter = kNoAdapter)
      : cache_(cache), id_(cache.add_sequence(adapter)) {}
  ~ScopedSequence() { cache_.release(id_); }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;

  [[nodiscard]] SequenceId id() const { return id_; }

 private:
  BlockManager& cache_;
  SequenceId id_;
};

}  // namespace folio::infer
