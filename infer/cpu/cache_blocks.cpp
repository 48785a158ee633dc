#include "infer/cpu/cache_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "core/aligned_vector.h"

namespace folio::infer {

static_assert(kBlockPositions == kernels::kBlockPositions);

namespace {

constexpr auto kAlignment = static_cast<size_t>(core::kCacheLine);
constexpr size_t kMinBlocksPerSlab = 8;  // minimum number of blocks in one allocation of huge pages

}  // namespace

template <typename T>
const T* CacheBlocks<T>::use(BlockId block) {
  const auto index = static_cast<size_t>(block);
  if (index >= blocks_.size()) blocks_.resize(index + 1);
  if (blocks_[index] == nullptr) {
    // A rank without key/value heads has blocks of size 0, which get one cache line.
    const size_t bytes = std::max(kAlignment, (size() * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment);
    const size_t slab = (kMinBlocksPerSlab * bytes + kHugePage - 1) / kHugePage * kHugePage;
    const size_t blocks_per_slab = slab / bytes;
    if (n_used_ == memory_.size() * blocks_per_slab) memory_.push_back(allocate_huge_pages(slab));
    blocks_[index] = reinterpret_cast<T*>(memory_.back().get() + n_used_++ % blocks_per_slab * bytes);
    std::memset(static_cast<void*>(blocks_[index]), 0, bytes);
  }
  return blocks_[index];
}

template <typename T>
void CacheBlocks<T>::copy(BlockId from, BlockId to) {
  use(to);
  std::copy_n((*this)[from], size(), blocks_[static_cast<size_t>(to)]);
}

template <typename T>
void CacheBlocks<T>::store(BlockId block, size_t layer, size_t slot, const float* key, const float* value) {
  T* to = blocks_[static_cast<size_t>(block)];
  for (size_t h = 0; h < n_kv_heads_; ++h) {
    T* keys = to + key_offset(layer, h);
    T* values = to + value_offset(layer, h);
    if constexpr (std::is_same_v<T, kernels::BF16Pair>) {
      std::array<kernels::BF16, kernels::kMaxHeadDim> rounded;
      if (n_kinds_ == 2) {
        kernels_.to_fast(key + h * head_dim_, head_dim_, rounded.data());
        for (size_t d = 0; d < head_dim_; ++d) keys[d / 2 * kPositions + slot].of[d % 2] = rounded[d];
      }
      kernels_.to_fast(value + h * head_dim_, head_dim_, rounded.data());
      for (size_t d = 0; d < head_dim_; ++d) values[slot / 2 * head_dim_ + d].of[slot % 2] = rounded[d];
    } else {
      if (n_kinds_ == 2) {
        std::array<T, kernels::kMaxHeadDim> rounded;
        round(key + h * head_dim_, slot, rounded.data(), keys);
        for (size_t d = 0; d < head_dim_; ++d) keys[d * kPositions + slot] = rounded[d];
      }
      round(value + h * head_dim_, slot, values + slot * head_dim_, values);
    }
  }
}

// Writes x (head_dim) to `rounded` in the cache's type. Q8 scales are stored in `head`, the head's part of the block.
template <typename T>
void CacheBlocks<T>::round(const float* x, size_t slot, T* rounded, T* head) {
  if constexpr (std::is_same_v<T, float>) {
    std::copy_n(x, head_dim_, rounded);
  } else if constexpr (std::is_same_v<T, kernels::F16>) {
    kernels_.to_f16(x, head_dim_, rounded);
  } else if constexpr (std::is_same_v<T, kernels::Q8>) {
    std::array<kernels::F16, kernels::q8_groups(kernels::kMaxHeadDim)> scales;
    kernels_.to_q8(x, head_dim_, rounded, scales.data());
    for (size_t g = 0; g < kernels::q8_groups(head_dim_); ++g) {
      std::memcpy(head + kernels::q8_scale(head_dim_, g, slot), &scales[g], sizeof scales[g]);
    }
  }
}

template class CacheBlocks<float>;
template class CacheBlocks<kernels::F16>;
template class CacheBlocks<kernels::Q8>;
template class CacheBlocks<kernels::BF16Pair>;

}  // namespace folio::infer
