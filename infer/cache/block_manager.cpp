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
  for (const BlockId block : to.table) add_reference(block);
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
    drop_reference(s.table.back());
    s.table.pop_back();
  }
  s.length = std::min(s.length, n_positions);
  s.n_cached = std::min(s.n_cached, static_cast<size_t>(s.length / kBlockPositions));
}

BlockId BlockManager::allocate_block() {
  core::require(in_use_ < n_blocks_, "the KV cache is full: all {} blocks of {} positions are in use", n_blocks_,
                kBlockPositions);
  if (free_.empty() && static_cast<int64_t>(references_.size()) < n_blocks_) {
    free_.push_back(static_cast<BlockId>(references_.size()));
    references_.push_back(0);
  }
  if (free_.empty()) free_.push_back(prefixes_.evict_oldest());
  const BlockId block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  ++in_use_;
  return block;
}

void BlockManager::drop_reference(BlockId block) {
  if (--references_[static_cast<size_t>(block)] > 0) return;
  if (prefixes_.is_cached(block)) {
    prefixes_.add_free(block);
  } else {
    free_.push_back(block);
  }
  --in_use_;
}

void BlockManager::add_reference(BlockId block) {
  if (references_[static_cast<size_t>(block)]++ > 0) return;
  prefixes_.remove_free(block);  // the block was unused, so it is in the prefix cache's list of free blocks: removes it
  ++in_use_;
}

int64_t BlockManager::share_prefix(SequenceId sequence, std::span<const int32_t> tokens) {
  Sequence& s = at(sequence);
  core::require(s.table.empty(), "sequence {} already has blocks", sequence);
  PrefixIndex::Known known = prefixes_.find(tokens, s.adapter);
  s.table = std::move(known.blocks);
  s.length = known.n_positions;
  s.n_cached = static_cast<size_t>(s.length / kBlockPositions);
  for (const BlockId block : s.table) add_reference(block);
  return s.length;
}

BlockManager::Prefix BlockManager::find_prefix(std::span<const int32_t> tokens, int32_t adapter) const {
  const PrefixIndex::Known known = prefixes_.find(tokens, adapter);
  const auto is_free = [this](BlockId block) { return references_[static_cast<size_t>(block)] == 0; };
  return {.length = known.n_positions, .free_blocks = std::ranges::count_if(known.blocks, is_free)};
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
      s.table.push_back(allocate_block());
      continue;
    }
    if (shared(s.table[b])) {
      const BlockId copy = allocate_block();
      replaced_.push_back({.sequence = sequence, .index = b, .original = s.table[b]});
      copies_.push_back({.from = s.table[b], .to = copy});
      s.table[b] = copy;
    } else {
      prefixes_.erase(s.table[b]);  // the prefix cache must not find a block that is about to be overwritten
    }
  }
}

void BlockManager::commit() {
  for (const Reserved& r : reserved_) at(r.sequence).length += r.count;
  for (const Replaced& r : replaced_) drop_reference(r.original);
  clear_reserved();
}

void BlockManager::roll_back() {
  for (const Replaced& r : replaced_) {
    BlockId& block = at(r.sequence).table[r.index];
    drop_reference(std::exchange(block, r.original));
  }
  for (const Reserved& r : reserved_) {
    std::vector<BlockId>& table = at(r.sequence).table;
    for (; table.size() > r.table_size; table.pop_back()) drop_reference(table.back());
  }
  clear_reserved();
}

void BlockManager::clear_reserved() {
  reserved_.clear();
  replaced_.clear();
  copies_.clear();
}

}  // namespace folio::infer
