#include "core/manifest.h"

#include <fmt/format.h>

namespace folio::core {

int64_t TensorSpec::elements() const {
  int64_t product = 1;
  for (const int64_t d : shape) product *= d;
  return product;
}

std::vector<TensorSpec> tensor_manifest(const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  std::vector<TensorSpec> tensors;
  const auto add = [&](Role role, int64_t layer, std::vector<int64_t> shape, const std::string& gguf,
                       const std::string& hf, const std::string& module, const char* kind = ".weight") {
    const std::string blk = layer < 0 ? "" : fmt::format("blk.{}.", layer);
    const std::string hf_layer = layer < 0 ? "" : fmt::format("model.layers.{}.", layer);
    const std::string module_layer = layer < 0 ? "" : fmt::format("layers.{}.", layer);
    const bool permuted = family.pairs == RopePairs::Adjacent && (role == Role::Wq || role == Role::Wk);
    tensors.push_back({role, layer, std::move(shape), blk + gguf + kind, hf_layer + hf + kind,
                       module_layer + module + kind, permuted});
  };
  add(Role::TokenEmbedding, -1, {c.vocab_size, c.dim}, "token_embd", "model.embed_tokens", "tok_embeddings");
  for (int64_t l = 0; l < c.n_layers; ++l) {
    add(Role::AttentionNorm, l, {c.dim}, "attn_norm", "input_layernorm", "attention_norm");
    add(Role::Wq, l, {c.query_dim(), c.dim}, "attn_q", "self_attn.q_proj", "attention.wq");
    add(Role::Wk, l, {c.kv_dim(), c.dim}, "attn_k", "self_attn.k_proj", "attention.wk");
    add(Role::Wv, l, {c.kv_dim(), c.dim}, "attn_v", "self_attn.v_proj", "attention.wv");
    if (family.qkv_bias) {
      add(Role::Bq, l, {c.query_dim()}, "attn_q", "self_attn.q_proj", "attention.wq", ".bias");
      add(Role::Bk, l, {c.kv_dim()}, "attn_k", "self_attn.k_proj", "attention.wk", ".bias");
      add(Role::Bv, l, {c.kv_dim()}, "attn_v", "self_attn.v_proj", "attention.wv", ".bias");
    }
    if (family.qk_norm) {
      add(Role::QueryNorm, l, {c.head_dim}, "attn_q_norm", "self_attn.q_norm", "attention.q_norm");
      add(Role::KeyNorm, l, {c.head_dim}, "attn_k_norm", "self_attn.k_norm", "attention.k_norm");
    }
    add(Role::Wo, l, {c.dim, c.query_dim()}, "attn_output", "self_attn.o_proj", "attention.wo");
    add(Role::FfnNorm, l, {c.dim}, "ffn_norm", "post_attention_layernorm", "ffn_norm");
    add(Role::W1, l, {c.hidden_dim, c.dim}, "ffn_gate", "mlp.gate_proj", "ffn.w1");
    add(Role::W3, l, {c.hidden_dim, c.dim}, "ffn_up", "mlp.up_proj", "ffn.w3");
    add(Role::W2, l, {c.dim, c.hidden_dim}, "ffn_down", "mlp.down_proj", "ffn.w2");
  }
  add(Role::OutputNorm, -1, {c.dim}, "output_norm", "model.norm", "norm");
  if (!c.tie_embeddings) add(Role::Output, -1, {c.vocab_size, c.dim}, "output", "lm_head", "output");
  return tensors;
}

}  // namespace folio::core
