#include "infer/forward/machine.h"

#include <vector>

#include "core/error.h"
#include "core/manifest.h"
#include "core/rope_scaling.h"

namespace folio::infer {

SlotWidths slot_widths(const core::ModelConfig& c) {
  const auto dim = static_cast<size_t>(c.dim);
  const auto query_dim = static_cast<size_t>(c.query_dim());
  const auto kv_dim = static_cast<size_t>(c.kv_dim());
  const size_t hidden_dim = c.has_experts(0) ? 0 : static_cast<size_t>(c.hidden_dim);
  const auto n_experts = static_cast<size_t>(c.n_experts);
  const auto expert_dim = static_cast<size_t>(c.experts_per_token * c.expert_dim);
  const auto shared_dim = static_cast<size_t>(c.shared_dim);
  // Residual, Normed, Query, Key, Value, Heads, Gate, Up, Routes, ExpertGate, ExpertUp, SharedGate, SharedUp, Branch,
  // Logits
  return {dim,        dim,        query_dim,  kv_dim,    kv_dim,
          query_dim,  hidden_dim, hidden_dim, n_experts, expert_dim,
          expert_dim, shared_dim, shared_dim, dim,       static_cast<size_t>(c.vocab_size)};
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

void require_llama_parts(const core::StoredModel& model, const char* who) {
  const core::ModelConfig& c = model.config;
  const core::FamilyInfo& family = core::info(c.family);
  const auto refuse = [&](bool has, const char* what) {
    core::require(!has, "{}: {} runs no model with {} yet; take --device cpu, without shards", model.path, who, what);
  };
  refuse(c.n_experts > 0, "experts");
  refuse(family.post_norms || !family.pre_norms || family.qk_norm == core::QkNorm::All, "norms in other places");
  refuse(family.gate != core::Gate::Silu, "other gates than silu");
  refuse(family.sinks, "attention sinks");
  refuse(family.output_bias, "a bias of what attention adds");
  refuse(c.rotated() != c.head_dim || c.local_rope_theta > 0.0F, "such rotations");
  refuse(core::rope_magnitude(c) != 1.0F, "rotations of another magnitude");
  refuse(c.sliding_window > 0 && c.window_period > 1, "a window in some layers");
  refuse(c.attention_cap > 0.0F || c.logit_cap > 0.0F, "soft caps");
  refuse(c.embedding_scale != 1.0F || c.residual_scale != 1.0F || c.logit_scale != 1.0F || c.attention_scale != 0.0F,
         "scales");
}

void require_whole(const Shard& shard, const char* who) {
  core::require(shard.n_ranks == 1, "{} has whole matrices, and can't be rank {} of {} shards", who, shard.rank,
                shard.n_ranks);
}

void Stage::load_adapter(int32_t /*number*/, std::shared_ptr<const core::Adapter> adapter) {
  core::fail("{}: this machine runs no adapters", adapter->path);
}

void Stage::route(const Router& /*router*/) { core::fail("this machine runs no experts"); }

void Stage::project_experts(const ExpertMatrix& /*gate*/, const ExpertMatrix& /*up*/) {
  core::fail("this machine runs no experts");
}

void Stage::combine_experts(const ExpertMatrix& /*down*/) { core::fail("this machine runs no experts"); }

void Stage::gate_rows(Slot /*slot*/, WeightId /*weight*/) { core::fail("this machine runs no experts"); }

int64_t positions_seen(const core::ModelConfig& c, int64_t layer) {
  return c.has_window(layer) ? c.sliding_window : c.context_length;
}

}  // namespace folio::infer
