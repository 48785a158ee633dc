// KV cache blocks on a CPU. For each layer of a stage, a block holds keys (n_kv_heads, head_dim, 32), then values
// (n_kv_heads, 32, head_dim), as float, F16, Q8 or BF16Pair; a head's Q8 scales follow its quants. In the keys,
// positions are contiguous, so one vector computes sixteen scores. In latent attention, there are no keys: the values
// are the latents. A position is rounded once, when it is stored. Memory is allocated on a block's first use, for
// several blocks at a time, and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/cpu/huge_pages.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

template <typename T>
class CacheBlocks {
 public:
  CacheBlocks(size_t n_kv_heads, int64_t head_dim, int64_t n_layers, const kernels::Kernels& kernels,
              bool has_keys = true)
      : kernels_(kernels),
        n_layers_(static_cast<size_t>(n_layers)),
        n_kinds_(has_keys ? 2 : 1),
        n_kv_heads_(n_kv_heads),
        head_dim_(static_cast<size_t>(head_dim)),
        head_size_(kernels::head_size<T>(head_dim_)) {}

  /// Returns a block's size in elements. key_offset() and value_offset() return where a head's keys or values begin, in
  /// elements from the start of a block; `layer` counts from the stage's first layer.
  [[nodiscard]] size_t size() const { return n_layers_ * n_kinds_ * n_kv_heads_ * head_size_; }
  [[nodiscard]] size_t key_offset(size_t layer, size_t head) const {
    return (layer * n_kinds_ * n_kv_heads_ + head) * head_size_;
  }
  [[nodiscard]] size_t value_offset(size_t layer, size_t head) const {
    return ((layer * n_kinds_ + n_kinds_ - 1) * n_kv_heads_ + head) * head_size_;
  }

  /// Returns the block's memory, zeroed on first use. Throws std::bad_alloc.
  const T* use(BlockId block);
  /// Returns the memory of a block that use() allocated.
  [[nodiscard]] const T* operator[](BlockId block) const { return blocks_[static_cast<size_t>(block)]; }
  void copy(BlockId from, BlockId to);
  /// Stores one position of a layer at index `slot` of the block. key and value are (n_kv_heads, head_dim); key is
  /// unused if blocks have no keys.
  void store(BlockId block, size_t layer, size_t slot, const float* key, const float* value);

 private:
  static constexpr size_t kPositions = kBlockPositions;

  void round(const float* x, size_t slot, T* rounded, T* head);

  const kernels::Kernels& kernels_;
  size_t n_layers_;
  size_t n_kinds_;  ///< 2: keys and values; 1: values only
  size_t n_kv_heads_;
  size_t head_dim_;
  size_t head_size_;
  std::vector<T*> blocks_;         ///< (blocks); null until first used
  std::vector<HugePages> memory_;  ///< slabs of several blocks
  size_t n_used_ = 0;              ///< blocks that have memory
};

}  // namespace folio::infer
