// The paged KV cache: keys and values in blocks of 32 positions, a block table for each sequence, and a reference
// count for each block, so that sequences share a common beginning. A shared block is copied before it is written.
//
// A block holds, for each layer: keys (n_kv_heads, head_dim, 32), then values (n_kv_heads, 32, head_dim).
// Keys lie with positions side by side, so that scores are computed for many positions at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/model_config.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

using SequenceId = int32_t;

class KvCache {
 public:
  static constexpr int64_t kBlock = kernels::kBlockPositions;

  /// At most `max_blocks` blocks are ever held; memory is taken as they are used.
  KvCache(const core::ModelConfig& config, int64_t max_blocks);

  [[nodiscard]] SequenceId add_sequence();
  /// A new sequence that shares all blocks of `parent`.
  [[nodiscard]] SequenceId fork(SequenceId parent);
  void release(SequenceId sequence);

  /// Makes positions [first, first + count) writable: allocates blocks, and copies those that are shared.
  /// `first` is at most the sequence's length, which grows to first + count where that is more. Throws core::Error if
  /// no block is free.
  void reserve(SequenceId sequence, int64_t first, int64_t count);
  /// Forgets all positions from n_positions on.
  void truncate(SequenceId sequence, int64_t n_positions);
  [[nodiscard]] int64_t length(SequenceId sequence) const;

  /// Stores one position of one layer: key and value are (n_kv_heads, head_dim). The position has to be reserved.
  void store(SequenceId sequence, int64_t layer, int64_t position, const float* key, const float* value);

  /// Where the blocks of a sequence begin, in order. Valid until the next reserve, truncate or release.
  [[nodiscard]] const float* const* blocks(SequenceId sequence) const;
  /// In floats, from the beginning of a block to a head's keys and values.
  [[nodiscard]] size_t key_offset(int64_t layer, int64_t head) const;
  [[nodiscard]] size_t value_offset(int64_t layer, int64_t head) const;

  [[nodiscard]] int64_t blocks_in_use() const { return in_use_; }
  [[nodiscard]] size_t block_bytes() const;

 private:
  struct AlignedDelete {
    void operator()(float* p) const;
  };
  struct Block {
    std::unique_ptr<float, AlignedDelete> data;
    int32_t references = 0;
  };
  struct Sequence {
    bool live = false;
    int64_t length = 0;
    std::vector<size_t> table;         ///< indices into blocks_
    std::vector<const float*> starts;  ///< the same blocks' data, for the kernels
  };

  [[nodiscard]] Sequence& at(SequenceId sequence);
  [[nodiscard]] const Sequence& at(SequenceId sequence) const;
  size_t take_block();
  void drop_block(size_t index);

  int64_t n_layers_;
  int64_t n_kv_heads_;
  int64_t head_dim_;
  int64_t max_blocks_;
  int64_t in_use_ = 0;
  std::vector<Block> blocks_;
  std::vector<size_t> free_;
  std::vector<Sequence> sequences_;
};

}  // namespace folio::infer
