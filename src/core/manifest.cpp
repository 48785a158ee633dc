#include "core/manifest.h"

#include <fmt/format.h>

#include <array>

#include "core/formats/family_files.h"

namespace folio::core {

int64_t TensorSpec::elements() const {
  int64_t product = 1;
  for (const int64_t d : shape) product *= d;
  return product;
}

std::string TensorSpec::hf_part(int64_t index) const {
  return is_stack() && hf_packed.name.empty() ? fmt::format(fmt::runtime(hf_name), index) : hf_name;
}

bool TensorSpec::of_experts() const { return role >= Role::ExpertW1 && role <= Role::ExpertB2; }

bool TensorSpec::is_matrix() const { return is_stack() || (shape.size() == 2 && !of_experts()); }

std::vector<int64_t> TensorSpec::hf_shape() const {
  if (role == Role::SharedGate) return {1, shape[0]};
  if (!hf_packed.name.empty()) return hf_packed.shape;
  return is_stack() ? std::vector<int64_t>(shape.begin() + 1, shape.end()) : shape;
}

std::vector<TensorSpec> tensor_manifest(const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const HfFamily of_hf = hf_family(c.family);
  const GgufFamily of_gguf = gguf_family(c.family);
  std::vector<TensorSpec> tensors;
  const auto add = [&](Role role, int64_t layer, std::vector<int64_t> shape, const std::string& gguf,
                       const std::string& hf, const std::string& module, const char* kind = ".weight") {
    const std::string blk = layer < 0 ? "" : fmt::format("blk.{}.", layer);
    const std::string hf_layer = layer < 0 ? "" : fmt::format("model.layers.{}.", layer);
    const std::string module_layer = layer < 0 ? "" : fmt::format("layers.{}.", layer);
    const bool permuted = family.pairs != of_hf.pairs && (role == Role::Wq || role == Role::Wk);
    tensors.push_back({role, layer, std::move(shape), blk + gguf + kind, hf_layer + hf + kind,
                       module_layer + module + kind, permuted});
  };
  const auto add_experts = [&](int64_t l) {
    const std::string ffn = fmt::format("{}.", of_hf.ffn);
    const std::string router = ffn + std::string(of_hf.router);
    const auto expert = [&](size_t which) { return fmt::format("{}experts.{{}}.{}", ffn, of_hf.expert[which]); };
    const auto pack = [&](int64_t first, int64_t step) {  // sets hf_packed of the last tensor
      TensorSpec& spec = tensors.back();
      const std::string_view matrix = of_hf.expert[step == 2 ? 0 : 2];
      HfPacked& packed = spec.hf_packed;
      packed = {fmt::format("model.layers.{}.{}experts.{}", l, ffn, matrix), {spec.shape[0], step * spec.shape[1]}};
      packed.first = first;
      packed.last = first + 1 == step;
      packed.steps = {step * spec.shape[1], step, 0};
      if (spec.is_stack()) {
        packed.shape.insert(packed.shape.begin() + 1, spec.shape[2]);
        packed.steps = {step * spec.shape[1] * spec.shape[2], step, step * spec.shape[1]};
      } else {
        packed.name += "_bias";
      }
      spec.hf_name = packed.name;
    };
    add(Role::Router, l, {c.n_experts, c.dim}, "ffn_gate_inp", router, "ffn.router");
    if (family.mixture.biases) add(Role::RouterBias, l, {c.n_experts}, "ffn_gate_inp", router, "ffn.router", ".bias");
    if (family.mixture.selection_bias) {
      add(Role::SelectionBias, l, {c.n_experts}, "exp_probs_b", router + ".e_score_correction", "ffn.selection",
          ".bias");
      tensors.back().hf_name = fmt::format("model.layers.{}.{}.e_score_correction_bias", l, router);
    }
    const auto add_three = [&](std::array<Role, 3> roles, bool vectors) {
      const auto shape = [&](int64_t out, int64_t in) {
        return vectors ? std::vector{c.n_experts, out} : std::vector{c.n_experts, out, in};
      };
      constexpr std::array kGguf{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
      constexpr std::array kModule{"ffn.experts.w1", "ffn.experts.w3", "ffn.experts.w2"};
      for (size_t i = 0; i < 3; ++i) {
        add(roles[i], l, i < 2 ? shape(c.expert_dim, c.dim) : shape(c.dim, c.expert_dim), kGguf[i], expert(i),
            kModule[i], vectors ? ".bias" : ".weight");
        if (of_hf.packed_experts) pack(i == 1 ? 1 : 0, i < 2 ? 2 : 1);
      }
    };
    add_three({Role::ExpertW1, Role::ExpertW3, Role::ExpertW2}, false);
    if (family.mixture.biases) add_three({Role::ExpertB1, Role::ExpertB3, Role::ExpertB2}, true);
    if (family.mixture.shared_gate && c.shared_dim > 0) {
      add(Role::SharedGate, l, {c.dim}, "ffn_gate_inp_shexp", ffn + "shared_expert_gate", "ffn.shared_gate");
    }
  };
  const auto add_latent = [&](int64_t l) {
    if (c.q_lora_rank > 0) {
      add(Role::WqA, l, {c.q_lora_rank, c.dim}, "attn_q_a", "self_attn.q_a_proj", "attention.wq_a");
      add(Role::QueryLatentNorm, l, {c.q_lora_rank}, "attn_q_a_norm", "self_attn.q_a_layernorm", "attention.q_a_norm");
      add(Role::WqB, l, {c.query_dim(), c.q_lora_rank}, "attn_q_b", "self_attn.q_b_proj", "attention.wq_b");
    } else {
      add(Role::Wq, l, {c.query_dim(), c.dim}, "attn_q", "self_attn.q_proj", "attention.wq");
    }
    add(Role::WkvA, l, {c.latent_dim(), c.dim}, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", "attention.wkv_a");
    add(Role::LatentNorm, l, {c.kv_lora_rank}, "attn_kv_a_norm", "self_attn.kv_a_layernorm", "attention.kv_a_norm");
    add(Role::WkB, l, {c.n_heads, c.kv_lora_rank, c.qk_nope_head_dim}, "attn_k_b", "self_attn.kv_b_proj",
        "attention.wk_b");
    // Hugging Face files store both as one matrix: for each head, qk_nope_head_dim rows for keys, then v_head_dim rows.
    const int64_t rank = c.kv_lora_rank, keys = c.qk_nope_head_dim * rank, head = keys + c.v_head_dim * rank;
    const std::vector<int64_t> both{c.n_heads * head / rank, rank};
    tensors.back().hf_packed = {tensors.back().hf_name, both, 0, {head, 1, rank}, false};
    add(Role::WvB, l, {c.n_heads, c.v_head_dim, rank}, "attn_v_b", "self_attn.kv_b_proj", "attention.wv_b");
    tensors.back().hf_packed = {tensors.back().hf_name, both, keys, {head, rank, 1}, true};
  };
  // Marks the last `count` tensors as rows of a fused tensor: `gguf` + `kind` in GGUF, `hf` + `kind` in Hugging Face
  // files; null or empty means not fused. Written GGUFs are fused only if `gguf_writes`.
  const auto fuse = [&](size_t count, const char* gguf, bool gguf_writes, std::string_view hf, const char* kind) {
    const size_t begin = tensors.size() - count;
    int64_t rows = 0;
    for (size_t i = begin; i < tensors.size(); ++i) rows += tensors[i].shape[0];
    int64_t first = 0;
    for (size_t i = begin; i < tensors.size(); ++i) {
      TensorSpec& spec = tensors[i];
      if (gguf != nullptr) spec.gguf_fused = {fmt::format("blk.{}.{}{}", spec.layer, gguf, kind), first, rows};
      spec.gguf_writes_fused = gguf_writes;
      if (!hf.empty()) spec.hf_fused = {fmt::format("model.layers.{}.{}{}", spec.layer, hf, kind), first, rows};
      first += spec.shape[0];
    }
  };
  const std::string hf_qkv = of_hf.qkv.empty() ? "" : fmt::format("self_attn.{}", of_hf.qkv);
  add(Role::TokenEmbedding, -1, {c.vocab_size, c.dim}, "token_embd", "model.embed_tokens", "tok_embeddings");
  for (int64_t l = 0; l < c.n_layers + c.n_tokens_ahead; ++l) {
    if (family.pre_norms) {
      add(Role::AttentionNorm, l, {c.dim}, "attn_norm", "input_layernorm", "attention_norm");
    }
    if (c.latent()) {
      add_latent(l);
    } else {
      add(Role::Wq, l, {c.query_dim(), c.dim}, "attn_q", "self_attn.q_proj", "attention.wq");
      add(Role::Wk, l, {c.kv_dim(), c.dim}, "attn_k", "self_attn.k_proj", "attention.wk");
      add(Role::Wv, l, {c.kv_dim(), c.dim}, "attn_v", "self_attn.v_proj", "attention.wv");
      fuse(3, "attn_qkv", of_gguf.qkv, hf_qkv, ".weight");
    }
    if (c.qkv_bias()) {
      add(Role::Bq, l, {c.query_dim()}, "attn_q", "self_attn.q_proj", "attention.wq", ".bias");
      add(Role::Bk, l, {c.kv_dim()}, "attn_k", "self_attn.k_proj", "attention.wk", ".bias");
      add(Role::Bv, l, {c.kv_dim()}, "attn_v", "self_attn.v_proj", "attention.wv", ".bias");
      fuse(3, "attn_qkv", of_gguf.qkv, hf_qkv, ".bias");
    }
    if (family.qk_norm != QkNorm::None) {
      const bool heads = family.qk_norm == QkNorm::Heads;
      add(Role::QueryNorm, l, {heads ? c.head_dim : c.query_dim()}, "attn_q_norm", "self_attn.q_norm",
          "attention.q_norm");
      add(Role::KeyNorm, l, {heads ? c.head_dim : c.kv_dim()}, "attn_k_norm", "self_attn.k_norm", "attention.k_norm");
    }
    if (family.sinks) {
      add(Role::AttentionSinks, l, {c.n_heads}, "attn_sinks", "self_attn.sinks", "attention.sinks");
      tensors.back().hf_name = fmt::format("model.layers.{}.self_attn.sinks", l);
    }
    add(Role::Wo, l, {c.dim, c.heads_dim()}, "attn_output", "self_attn.o_proj", "attention.wo");
    if (family.output_bias) add(Role::Bo, l, {c.dim}, "attn_output", "self_attn.o_proj", "attention.wo", ".bias");
    if (family.post_norms) {
      add(Role::PostAttentionNorm, l, {c.dim}, "post_attention_norm", std::string(of_hf.post_attention_norm),
          "post_attention_norm");
    }
    if (family.pre_norms) {
      add(Role::FfnNorm, l, {c.dim}, std::string(of_gguf.ffn_norm), std::string(of_hf.ffn_norm), "ffn_norm");
    }
    if (c.has_experts(l)) add_experts(l);
    const int64_t width = c.has_experts(l) ? c.shared_dim : c.hidden_dim;
    const std::string gguf = c.has_experts(l) ? "_shexp" : "";
    const std::string hf =
        c.has_experts(l) ? fmt::format("{}.{}.", of_hf.ffn, of_hf.shared) : fmt::format("{}.", of_hf.ffn);
    const std::string module = c.has_experts(l) ? "ffn.shared." : "ffn.";
    if (width > 0) {
      add(Role::W1, l, {width, c.dim}, "ffn_gate" + gguf, hf + "gate_proj", module + "w1");
      add(Role::W3, l, {width, c.dim}, "ffn_up" + gguf, hf + "up_proj", module + "w3");
      if (!c.has_experts(l) && (of_gguf.gate_up || !of_hf.gate_up.empty())) {
        fuse(2, of_gguf.gate_up ? "ffn_up" : nullptr, of_gguf.gate_up,
             of_hf.gate_up.empty() ? "" : fmt::format("{}.{}", of_hf.ffn, of_hf.gate_up), ".weight");
      }
      add(Role::W2, l, {c.dim, width}, "ffn_down" + gguf, hf + "down_proj", module + "w2");
    }
    if (family.post_norms) {
      add(Role::PostFfnNorm, l, {c.dim}, "post_ffw_norm", std::string(of_hf.post_ffn_norm), "post_ffn_norm");
    }
    if (l < c.n_layers) continue;
    add(Role::MtpEmbeddingNorm, l, {c.dim}, "nextn.enorm", "enorm", "embedding_norm");
    add(Role::MtpHiddenNorm, l, {c.dim}, "nextn.hnorm", "hnorm", "hidden_norm");
    add(Role::MtpProjection, l, {c.dim, 2 * c.dim}, "nextn.eh_proj", "eh_proj", "projection");
    add(Role::MtpOutputNorm, l, {c.dim}, "nextn.shared_head_norm", "shared_head.norm", "output_norm");
  }
  add(Role::OutputNorm, -1, {c.dim}, "output_norm", "model.norm", "norm");
  if (!c.tie_embeddings) add(Role::Output, -1, {c.vocab_size, c.dim}, "output", "lm_head", "output");
  return tensors;
}

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const TensorSpec& spec : tensor_manifest(config)) count += spec.elements();
  return count;
}

}  // namespace folio::core
