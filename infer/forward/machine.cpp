#include "infer/forward/machine.h"

#include <vector>

#include "core/error.h"
#include "core/manifest.h"

namespace folio::infer {

SlotWidths slot_widths(const core::ModelConfig& c) {
  const auto dim = static_cast<size_t>(c.dim);
  const auto query_dim = static_cast<size_t>(c.query_dim());
  const auto kv_dim = static_cast<size_t>(c.kv_dim());
  const auto hidden_dim = static_cast<size_t>(c.hidden_dim);
  // Residual, Normed, Query, Key, Value, Heads, Gate, Up, Logits
  return {dim, dim, query_dim, kv_dim, kv_dim, query_dim, hidden_dim, hidden_dim, static_cast<size_t>(c.vocab_size)};
}

void require_heads(Slot slot) {
  core::require(slot == Slot::Query || slot == Slot::Key, "norm_heads: slot {} is neither Query nor Key",
                static_cast<int>(slot));
}

CacheType default_cache_type(const core::StoredModel& model) {
  const std::vector<core::TensorSpec> manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const bool cached = manifest[i].role == core::Role::Wk || manifest[i].role == core::Role::Wv;
    if (cached && model.tensors[i].type == core::DType::F32) return CacheType::F32;
  }
  return CacheType::F16;
}

void require_whole(const Shard& shard, const char* who) {
  core::require(shard.n_ranks == 1, "{} has whole matrices, and can't be rank {} of {} shards", who, shard.rank,
                shard.n_ranks);
}

void Stage::load_adapter(int32_t /*number*/, std::shared_ptr<const core::Adapter> adapter) {
  core::fail("{}: this machine runs no adapters", adapter->path);
}

int64_t positions_seen(const core::ModelConfig& c) {
  return c.sliding_window > 0 ? c.sliding_window : c.context_length;
}

}  // namespace folio::infer
