#include "infer/cache/block_manager.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {

BlockManager::Sequence& BlockManager::at(SequenceId sequence) {
  return const_cast<Sequence&>(std::as_const(*this).at(sequence));
}

const BlockManager::Sequence& BlockManager::at(SequenceId sequence) const {
  core::require(sequence >= 0 && static_cast<size_t>(sequence) < sequences_.size() &&
                    sequences_[static_cast<size_t>(sequence)].live,
                "the cache has no sequence {}", sequence);
  return sequences_[static_cast<size_t>(sequence)];
}

SequenceId BlockManager::add_sequence(int32_t adapter) {
  const auto idle = std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.live; });
  const auto id = static_cast<SequenceId>(idle - sequences_.begin());
  if (idle == sequences_.end()) sequences_.emplace_back();
  sequences_[static_cast<size_t>(id)].live = true;
  sequences_[static_cast<size_t>(id)].adapter = adapter;
  return id;
}

SequenceId BlockManager::fork(SequenceId parent) {
  static_cast<void>(at(parent));  // throws if `parent` was released; add_sequence() might reuse its id
  const SequenceId child = add_sequence(at(parent).adapter);
  const Sequence& from = at(parent);
  Sequence& to = at(child);
  to.length = from.length;
  to.table = from.table;
  to.n_cached = from.n_cached;
  for (const BlockId block : to.table) hold(block);
  return child;
}

void BlockManager::release(SequenceId sequence) {
  truncate(sequence, 0);
  at(sequence).live = false;
}

void BlockManager::truncate(SequenceId sequence, int64_t n_positions) {
  Sequence& s = at(sequence);
  core::require(n_positions >= 0, "cannot keep {} positions of sequence {}", n_positions, sequence);
  core::require(reserved_.empty(), "sequence {} cannot be truncated while positions are reserved", sequence);
  const auto keep = static_cast<size_t>(blocks_for(n_positions));
  while (s.table.size() > keep) {
    drop_block(s.table.back());
    s.table.pop_back();
  }
  s.length = std::min(s.length, n_positions);
  s.n_cached = std::min(s.n_cached, static_cast<size_t>(s.length / kBlockPositions));
}

BlockId BlockManager::take_block() {
  core::require(in_use_ < n_blocks_, "the KV cache is full: all {} blocks of {} positions are in use", n_blocks_,
                kBlockPositions);
  if (free_.empty() && static_cast<int64_t>(references_.size()) < n_blocks_) {
    free_.push_back(static_cast<BlockId>(references_.size()));
    references_.push_back(0);
  }
  if (free_.empty()) free_.push_back(prefixes_.forget_oldest());
  const BlockId block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  ++in_use_;
  return block;
}

void BlockManager::drop_block(BlockId block) {
  if (--references_[static_cast<size_t>(block)] > 0) return;
  if (prefixes_.is_cached(block)) {
    prefixes_.leave(block);
  } else {
    free_.push_back(block);
  }
  --in_use_;
}

void BlockManager::hold(BlockId block) {
  if (references_[static_cast<size_t>(block)]++ > 0) return;
  prefixes_.take(block);  // the block was unused, so it is in the prefix cache's list of free blocks: removes it
  ++in_use_;
}

int64_t BlockManager::share_prefix(SequenceId sequence, std::span<const int32_t> tokens) {
  Sequence& s = at(sequence);
  core::require(s.table.empty(), "sequence {} already has blocks", sequence);
  const Known known = find_known(tokens, s.adapter);
  s.table = known.blocks;
  s.n_cached = s.table.size();
  s.length = static_cast<int64_t>(s.table.size()) * kBlockPositions + static_cast<int64_t>(known.tail.n_tokens);
  if (known.tail.block >= 0) s.table.push_back(known.tail.block);
  for (const BlockId block : s.table) hold(block);
  return s.length;
}

// Finds the cached blocks of the longest known prefix of `tokens`. A partial block in use is not shared: its sequence
// will append to it, which would require a copy.
BlockManager::Known BlockManager::find_known(std::span<const int32_t> tokens, int32_t adapter) const {
  Known known{.blocks = prefixes_.find(tokens, adapter)};
  known.tail = prefixes_.find_tail(known.blocks, tokens, adapter,
                                   [&](BlockId block) { return references_[static_cast<size_t>(block)] == 0; });
  return known;
}

BlockManager::Prefix BlockManager::find_prefix(std::span<const int32_t> tokens, int32_t adapter) const {
  Prefix prefix;
  const Known known = find_known(tokens, adapter);
  for (const BlockId block : known.blocks) {
    prefix.length += kBlockPositions;
    prefix.free_blocks += references_[static_cast<size_t>(block)] == 0 ? 1 : 0;
  }
  prefix.length += static_cast<int64_t>(known.tail.n_tokens);
  prefix.free_blocks += known.tail.block >= 0 ? 1 : 0;
  return prefix;
}

void BlockManager::remember(SequenceId sequence, std::span<const int32_t> tokens) {
  Sequence& s = at(sequence);
  core::require(static_cast<int64_t>(tokens.size()) <= s.length,
                "sequence {} has {} positions, but {} tokens were given", sequence, s.length, tokens.size());
  const size_t full = tokens.size() / static_cast<size_t>(kBlockPositions);
  if (full <= s.n_cached) return;
  prefixes_.add(s.table, tokens, s.adapter);
  s.n_cached = full;
}

void BlockManager::remember_tail(SequenceId sequence, std::span<const int32_t> tokens) {
  const Sequence& s = at(sequence);
  core::require(static_cast<int64_t>(tokens.size()) == s.length, "sequence {} has {} positions, expected {}", sequence,
                s.length, tokens.size());
  if (s.length % kBlockPositions == 0 || shared(s.table.back())) return;
  prefixes_.add_tail(s.table.back(), tokens, s.adapter);
}

int64_t BlockManager::blocks_needed(SequenceId sequence, int64_t count) const {
  const Sequence& s = at(sequence);
  if (count <= 0) return 0;
  const auto held = static_cast<int64_t>(s.table.size());
  int64_t needed = std::max<int64_t>(0, blocks_for(s.length + count) - held);
  for (int64_t b = s.length / kBlockPositions; b < held; ++b) needed += shared(s.table[static_cast<size_t>(b)]) ? 1 : 0;
  return needed;
}

void BlockManager::reserve(SequenceId sequence, int64_t count) {
  Sequence& s = at(sequence);
  core::require(count >= 0, "cannot reserve {} positions of sequence {}", count, sequence);
  core::require(
      std::none_of(reserved_.begin(), reserved_.end(), [&](const Reserved& r) { return r.sequence == sequence; }),
      "sequence {} already has reserved positions", sequence);
  if (count == 0) return;
  reserved_.push_back({.sequence = sequence, .count = count, .table_size = s.table.size()});
  const auto end = static_cast<size_t>(blocks_for(s.length + count));
  s.table.reserve(end);  // so that nothing throws between allocating a block and storing it
  replaced_.reserve(replaced_.size() + s.table.size());
  copies_.reserve(copies_.size() + s.table.size());
  for (auto b = static_cast<size_t>(s.length / kBlockPositions); b < end; ++b) {
    if (b == s.table.size()) {
      s.table.push_back(take_block());
      continue;
    }
    if (shared(s.table[b])) {
      const BlockId copy = take_block();
      replaced_.push_back({.sequence = sequence, .index = b, .original = s.table[b]});
      copies_.push_back({.from = s.table[b], .to = copy});
      s.table[b] = copy;
    } else {
      prefixes_.forget(s.table[b]);  // the prefix cache must not find a block that is about to be overwritten
    }
  }
}

void BlockManager::commit() {
  for (const Reserved& r : reserved_) at(r.sequence).length += r.count;
  for (const Replaced& r : replaced_) drop_block(r.original);
  forget_reserved();
}

void BlockManager::roll_back() {
  for (const Replaced& r : replaced_) {
    BlockId& block = at(r.sequence).table[r.index];
    drop_block(std::exchange(block, r.original));
  }
  for (const Reserved& r : reserved_) {
    std::vector<BlockId>& table = at(r.sequence).table;
    for (; table.size() > r.table_size; table.pop_back()) drop_block(table.back());
  }
  forget_reserved();
}

void BlockManager::forget_reserved() {
  reserved_.clear();
  replaced_.clear();
  copies_.clear();
}

}  // namespace folio::infer
