#include "infer/forward/machine.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/manifest.h"

namespace folio::infer {

SlotWidths slot_widths(const core::ModelConfig& c) {
  const auto dim = static_cast<size_t>(c.dim);
  const auto query_dim = static_cast<size_t>(c.query_dim());
  const size_t kv_dim = c.latent() ? 0 : static_cast<size_t>(c.kv_dim());
  const auto q_rank = static_cast<size_t>(c.q_lora_rank);
  const auto latent_dim = static_cast<size_t>(c.latent_dim());
  const size_t latents = static_cast<size_t>(c.n_heads) * latent_dim;
  const auto heads_dim = static_cast<size_t>(c.heads_dim());
  const size_t hidden_dim = c.has_experts(0) ? 0 : static_cast<size_t>(c.hidden_dim);
  const auto n_experts = static_cast<size_t>(c.n_experts);
  const auto expert_dim = static_cast<size_t>(c.experts_per_token * c.expert_dim);
  const auto shared_dim = static_cast<size_t>(c.shared_dim);
  const size_t of_hidden = c.n_tokens_ahead > 0 ? dim : 0;
  const auto vocab_size = static_cast<size_t>(c.vocab_size);
  // In the order of Slot: Residual, Normed, Query, Key, Value, QueryLatent, Latent, Absorbed, Attended, Heads, Gate,
  // Up, Routes, ExpertGate, ExpertUp, SharedGate, SharedUp, Branch, Hidden, Logits.
  return {dim,        dim,        query_dim,  kv_dim,     kv_dim,     q_rank,    latent_dim,
          latents,    latents,    heads_dim,  hidden_dim, hidden_dim, n_experts, expert_dim,
          expert_dim, shared_dim, shared_dim, dim,        of_hidden,  vocab_size};
}

CacheType default_cache_type(const core::StoredModel& model) {
  const std::vector<core::TensorSpec> manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::Role role = manifest[i].role;
    const bool cached = role == core::Role::Wk || role == core::Role::Wv || role == core::Role::WkvA;
    if (cached && model.tensors[i].type == core::DType::F32) return CacheType::F32;
  }
  return CacheType::F16;
}

void require_whole(const Shard& shard, const char* name) {
  core::require(shard.n_ranks == 1, "{} does not support sharded matrices and cannot be rank {} of {}", name,
                shard.rank, shard.n_ranks);
}

void require_tiles(const core::StoredModel& model, size_t n_ranks, const char* name, const char* remedy) {
  const auto dim = static_cast<size_t>(model.config.dim);
  core::require(n_ranks <= shard_tiles(dim),
                "{}: its width of {} has {} tiles of {} rows, too few for {} {}; use fewer {}", model.path, dim,
                shard_tiles(dim), kShardRows, n_ranks, name, remedy);
}

RankReport sum_of(std::span<const RankReport> ranks, size_t n_local) {
  RankReport sum{.load = {}, .fit = {.block_bytes = 0, .n_blocks = INT64_MAX}};
  for (size_t first = 0; first < ranks.size(); first += n_local) {
    uint64_t memory = UINT64_MAX;  // bytes for weights and blocks: the minimum of the host's ranks, which share it
    uint64_t weights = 0;
    uint64_t block = 0;
    for (const auto& [load, fit] : ranks.subspan(first, std::min(n_local, ranks.size() - first))) {
      sum.load.repacked_bytes += load.repacked_bytes;
      sum.load.repack_seconds = std::max(sum.load.repack_seconds, load.repack_seconds);
      weights += load.weight_bytes;
      block += fit.block_bytes;
      const uint64_t own_block = std::max<uint64_t>(1, fit.block_bytes);  // n_blocks counts bytes if blocks are empty
      memory = std::min(memory, load.weight_bytes + static_cast<uint64_t>(fit.n_blocks) * own_block);
    }
    sum.load.weight_bytes += weights;
    sum.fit.block_bytes += block;
    const uint64_t n_blocks = (memory - std::min(memory, weights)) / std::max<uint64_t>(1, block);
    sum.fit.n_blocks = std::min(sum.fit.n_blocks, static_cast<int64_t>(n_blocks));
  }
  return sum;
}

void Stage::load_adapter(int32_t /*number*/, const core::Adapter& adapter) {
  core::fail("{}: this machine does not support adapters", adapter.path);
}

int64_t positions_seen(const core::ModelConfig& c, int64_t layer) {
  return c.has_window(layer) ? c.sliding_window : c.context_length;
}

}  // namespace folio::infer
