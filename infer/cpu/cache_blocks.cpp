#include "infer/cpu/cache_blocks.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace folio::infer {

static_assert(kBlockPositions == kernels::kBlockPositions);

template <typename T>
const T* CacheBlocks<T>::use(BlockId block) {
  const auto index = static_cast<size_t>(block);
  if (index >= blocks_.size()) blocks_.resize(index + 1);
  if (blocks_[index].empty()) blocks_[index].resize(size());
  return blocks_[index].data();
}

template <typename T>
void CacheBlocks<T>::copy(BlockId from, BlockId to) {
  use(to);
  std::copy_n((*this)[from], size(), blocks_[static_cast<size_t>(to)].data());
}

template <typename T>
void CacheBlocks<T>::store(BlockId block, size_t layer, size_t slot, const float* key, const float* value) {
  T* to = blocks_[static_cast<size_t>(block)].data();
  for (size_t h = 0; h < n_kv_heads_; ++h) {
    T* keys = to + key_offset(layer, h) + slot;
    T* values = to + value_offset(layer, h) + slot * head_dim_;
    const float* head_key = key + h * head_dim_;
    const float* head_value = value + h * head_dim_;
    if constexpr (std::is_same_v<T, float>) {
      for (size_t d = 0; d < head_dim_; ++d) keys[d * kPositions] = head_key[d];
      std::copy_n(head_value, head_dim_, values);
    } else {
      std::array<T, kernels::kMaxHeadDim> rounded;
      kernels_.to_f16(head_key, head_dim_, rounded.data());
      for (size_t d = 0; d < head_dim_; ++d) keys[d * kPositions] = rounded[d];
      kernels_.to_f16(head_value, head_dim_, values);
    }
  }
}

template class CacheBlocks<float>;
template class CacheBlocks<kernels::F16>;

}  // namespace folio::infer
