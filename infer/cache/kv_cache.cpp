#include "infer/cache/kv_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void KvCache::AlignedDelete::operator()(float* p) const { ::operator delete(p, kAlignment); }

KvCache::KvCache(const core::ModelConfig& config, int64_t max_blocks)
    : n_layers_(config.n_layers),
      n_kv_heads_(config.n_kv_heads),
      head_dim_(config.head_dim()),
      max_blocks_(max_blocks) {}

KvCache::Sequence& KvCache::at(SequenceId sequence) { return const_cast<Sequence&>(std::as_const(*this).at(sequence)); }

const KvCache::Sequence& KvCache::at(SequenceId sequence) const {
  core::require(sequence >= 0 && static_cast<size_t>(sequence) < sequences_.size() &&
                    sequences_[static_cast<size_t>(sequence)].live,
                "the cache has no sequence {}", sequence);
  return sequences_[static_cast<size_t>(sequence)];
}

SequenceId KvCache::add_sequence() {
  const auto idle = std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.live; });
  const auto id = static_cast<SequenceId>(idle - sequences_.begin());
  if (idle == sequences_.end()) sequences_.emplace_back();
  sequences_[static_cast<size_t>(id)].live = true;
  return id;
}

SequenceId KvCache::fork(SequenceId parent) {
  static_cast<void>(at(parent));  // before there is a child, which may take the id of a parent that was released
  const SequenceId child = add_sequence();
  const Sequence& from = at(parent);
  Sequence& to = at(child);
  to.length = from.length;
  to.table = from.table;
  to.starts = from.starts;
  for (const size_t block : to.table) ++blocks_[block].references;
  return child;
}

void KvCache::release(SequenceId sequence) {
  truncate(sequence, 0);
  at(sequence).live = false;
}

size_t KvCache::take_block() {
  core::require(in_use_ < max_blocks_, "the KV cache is full: all {} blocks of {} positions are in use", max_blocks_,
                kBlock);
  if (free_.empty()) {
    auto* data = static_cast<float*>(::operator new(block_bytes(), kAlignment));
    blocks_.push_back({.data = std::unique_ptr<float, AlignedDelete>(data), .references = 0});
    free_.push_back(blocks_.size() - 1);
  }
  const size_t index = free_.back();
  free_.pop_back();
  blocks_[index].references = 1;
  ++in_use_;
  return index;
}

void KvCache::drop_block(size_t index) {
  if (--blocks_[index].references > 0) return;
  free_.push_back(index);
  --in_use_;
}

void KvCache::reserve(SequenceId sequence, int64_t first, int64_t count) {
  Sequence& s = at(sequence);
  core::require(first >= 0 && first <= s.length && count >= 0, "cannot reserve positions {} to {} of a sequence of {}",
                first, first + count, s.length);
  if (count == 0) return;
  const auto first_block = static_cast<size_t>(first / kBlock);
  const auto last_block = static_cast<size_t>((first + count - 1) / kBlock);
  for (size_t b = first_block; b <= last_block; ++b) {
    if (b == s.table.size()) {
      s.table.push_back(take_block());
      s.starts.push_back(blocks_[s.table[b]].data.get());
    } else if (blocks_[s.table[b]].references > 1) {
      const size_t copy = take_block();
      std::memcpy(blocks_[copy].data.get(), blocks_[s.table[b]].data.get(), block_bytes());
      drop_block(s.table[b]);
      s.table[b] = copy;
      s.starts[b] = blocks_[copy].data.get();
    }
  }
  s.length = std::max(s.length, first + count);
}

void KvCache::truncate(SequenceId sequence, int64_t n_positions) {
  Sequence& s = at(sequence);
  core::require(n_positions >= 0, "cannot keep {} positions of sequence {}", n_positions, sequence);
  const auto keep = static_cast<size_t>((n_positions + kBlock - 1) / kBlock);
  while (s.table.size() > keep) {
    drop_block(s.table.back());
    s.table.pop_back();
    s.starts.pop_back();
  }
  s.length = std::min(s.length, n_positions);
}

int64_t KvCache::length(SequenceId sequence) const { return at(sequence).length; }

void KvCache::store(SequenceId sequence, int64_t layer, int64_t position, const float* key, const float* value) {
  float* block = blocks_[at(sequence).table[static_cast<size_t>(position / kBlock)]].data.get();
  const int64_t slot = position % kBlock;
  for (int64_t h = 0; h < n_kv_heads_; ++h) {
    float* keys = block + key_offset(layer, h);
    float* values = block + value_offset(layer, h) + slot * head_dim_;
    for (int64_t d = 0; d < head_dim_; ++d) keys[d * kBlock + slot] = key[h * head_dim_ + d];
    std::copy_n(value + h * head_dim_, head_dim_, values);
  }
}

const float* const* KvCache::blocks(SequenceId sequence) const { return at(sequence).starts.data(); }

size_t KvCache::key_offset(int64_t layer, int64_t head) const {
  return static_cast<size_t>((layer * 2 * n_kv_heads_ + head) * head_dim_ * kBlock);
}

size_t KvCache::value_offset(int64_t layer, int64_t head) const {
  return static_cast<size_t>(((layer * 2 + 1) * n_kv_heads_ + head) * head_dim_ * kBlock);
}

size_t KvCache::block_bytes() const {
  return static_cast<size_t>(n_layers_ * 2 * n_kv_heads_ * head_dim_ * kBlock) * sizeof(float);
}

}  // namespace folio::infer
