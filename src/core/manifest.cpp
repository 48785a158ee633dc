#include "core/manifest.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

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

namespace {

// Builds the list of a model's tensors, in file order, for tensor_manifest().
class ManifestBuilder {
 public:
  explicit ManifestBuilder(const ModelConfig& config)
      : c_(config), family_(info(config.family)), hf_(hf_family(config.family)), gguf_(gguf_family(config.family)) {}

  std::vector<TensorSpec> build() && {
    add(Role::TokenEmbedding, {c_.vocab_size, c_.dim}, "token_embd", "model.embed_tokens", "tok_embeddings");
    for (layer_ = 0; layer_ < c_.n_layers + c_.n_tokens_ahead; ++layer_) {
      add_attention();
      add_ffn();
      if (layer_ >= c_.n_layers) add_mtp();
    }
    layer_ = -1;
    add(Role::OutputNorm, {c_.dim}, "output_norm", "model.norm", "norm");
    if (!c_.tie_embeddings) add(Role::Output, {c_.vocab_size, c_.dim}, "output", "lm_head", "output");
    return std::move(tensors_);
  }

 private:
  using Text = std::string_view;

  // Adds a tensor of the current layer, or of no layer if layer_ is -1. `gguf`, `hf` and `module` are its names in
  // GGUF, in Hugging Face files and in the LibTorch module, without the layer's prefix and without the suffix `kind`.
  void add(Role role, std::vector<int64_t> shape, Text gguf, Text hf, Text module, Text kind = ".weight") {
    const auto name = [&](Text layer, Text own) {
      return layer_ < 0 ? fmt::format("{}{}", own, kind) : fmt::format("{}.{}.{}{}", layer, layer_, own, kind);
    };
    const bool permuted = family_.pairs != hf_.pairs && (role == Role::Wq || role == Role::Wk);
    tensors_.push_back({role, layer_, std::move(shape), name("blk", gguf), name("model.layers", hf),
                        name("layers", module), permuted});
  }

  // Sets the Hugging Face name of the last tensor: the layer's prefix and `hf`, without a suffix such as ".weight".
  void rename_hf(Text hf) { tensors_.back().hf_name = fmt::format("model.layers.{}.{}", layer_, hf); }

  void add_attention() {
    if (family_.pre_norms) add(Role::AttentionNorm, {c_.dim}, "attn_norm", "input_layernorm", "attention_norm");
    if (c_.latent()) {
      add_latent();
    } else {
      add_qkv({Role::Wq, Role::Wk, Role::Wv}, ".weight");
    }
    if (c_.qkv_bias()) add_qkv({Role::Bq, Role::Bk, Role::Bv}, ".bias");
    if (family_.qk_norm != QkNorm::None) {
      const bool heads = family_.qk_norm == QkNorm::Heads;
      const int64_t query = heads ? c_.head_dim : c_.query_dim(), key = heads ? c_.head_dim : c_.kv_dim();
      add(Role::QueryNorm, {query}, "attn_q_norm", "self_attn.q_norm", "attention.q_norm");
      add(Role::KeyNorm, {key}, "attn_k_norm", "self_attn.k_norm", "attention.k_norm");
    }
    if (family_.sinks) {
      add(Role::AttentionSinks, {c_.n_heads}, "attn_sinks", "", "attention.sinks");
      rename_hf("self_attn.sinks");
    }
    add(Role::Wo, {c_.dim, c_.heads_dim()}, "attn_output", "self_attn.o_proj", "attention.wo");
    if (family_.output_bias) add(Role::Bo, {c_.dim}, "attn_output", "self_attn.o_proj", "attention.wo", ".bias");
    if (family_.post_norms) {
      add(Role::PostAttentionNorm, {c_.dim}, "post_attention_norm", hf_.post_attention_norm, "post_attention_norm");
    }
  }

  void add_qkv(std::array<Role, 3> roles, Text kind) {
    constexpr std::array kGguf{"attn_q", "attn_k", "attn_v"};
    constexpr std::array kHf{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    constexpr std::array kModule{"attention.wq", "attention.wk", "attention.wv"};
    for (size_t i = 0; i < 3; ++i) {
      std::vector<int64_t> shape{i == 0 ? c_.query_dim() : c_.kv_dim()};
      if (kind == ".weight") shape.push_back(c_.dim);
      add(roles[i], std::move(shape), kGguf[i], kHf[i], kModule[i], kind);
    }
    fuse(3, "attn_qkv", gguf_.qkv, hf_.qkv.empty() ? "" : fmt::format("self_attn.{}", hf_.qkv), kind);
  }

  void add_latent() {
    if (c_.q_lora_rank > 0) {
      add(Role::WqA, {c_.q_lora_rank, c_.dim}, "attn_q_a", "self_attn.q_a_proj", "attention.wq_a");
      add(Role::QueryLatentNorm, {c_.q_lora_rank}, "attn_q_a_norm", "self_attn.q_a_layernorm", "attention.q_a_norm");
      add(Role::WqB, {c_.query_dim(), c_.q_lora_rank}, "attn_q_b", "self_attn.q_b_proj", "attention.wq_b");
    } else {
      add(Role::Wq, {c_.query_dim(), c_.dim}, "attn_q", "self_attn.q_proj", "attention.wq");
    }
    add(Role::WkvA, {c_.latent_dim(), c_.dim}, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", "attention.wkv_a");
    add(Role::LatentNorm, {c_.kv_lora_rank}, "attn_kv_a_norm", "self_attn.kv_a_layernorm", "attention.kv_a_norm");
    // Hugging Face files store WkB and WvB as one matrix: for each head, qk_nope_head_dim rows, then v_head_dim rows.
    const int64_t rank = c_.kv_lora_rank, keys = c_.qk_nope_head_dim * rank, head = keys + c_.v_head_dim * rank;
    const std::vector<int64_t> both{c_.n_heads * head / rank, rank};
    add(Role::WkB, {c_.n_heads, rank, c_.qk_nope_head_dim}, "attn_k_b", "self_attn.kv_b_proj", "attention.wk_b");
    tensors_.back().hf_packed = {tensors_.back().hf_name, both, 0, {head, 1, rank}, false};
    add(Role::WvB, {c_.n_heads, c_.v_head_dim, rank}, "attn_v_b", "self_attn.kv_b_proj", "attention.wv_b");
    tensors_.back().hf_packed = {tensors_.back().hf_name, both, keys, {head, rank, 1}, true};
  }

  void add_ffn() {
    if (family_.pre_norms) add(Role::FfnNorm, {c_.dim}, gguf_.ffn_norm, hf_.ffn_norm, "ffn_norm");
    const bool experts = c_.has_experts(layer_);
    if (experts) add_experts();
    const int64_t width = experts ? c_.shared_dim : c_.hidden_dim;
    const std::string gguf = experts ? "_shexp" : "";
    const std::string hf = experts ? fmt::format("{}.{}.", hf_.ffn, hf_.shared) : fmt::format("{}.", hf_.ffn);
    const std::string module = experts ? "ffn.shared." : "ffn.";
    if (width > 0) {
      add(Role::W1, {width, c_.dim}, "ffn_gate" + gguf, hf + "gate_proj", module + "w1");
      add(Role::W3, {width, c_.dim}, "ffn_up" + gguf, hf + "up_proj", module + "w3");
      if (!experts && (gguf_.gate_up || !hf_.gate_up.empty())) {
        fuse(2, gguf_.gate_up ? "ffn_up" : "", gguf_.gate_up,
             hf_.gate_up.empty() ? "" : fmt::format("{}.{}", hf_.ffn, hf_.gate_up), ".weight");
      }
      add(Role::W2, {c_.dim, width}, "ffn_down" + gguf, hf + "down_proj", module + "w2");
    }
    if (family_.post_norms) add(Role::PostFfnNorm, {c_.dim}, "post_ffw_norm", hf_.post_ffn_norm, "post_ffn_norm");
  }

  void add_experts() {
    const std::string router = fmt::format("{}.{}", hf_.ffn, hf_.router);
    add(Role::Router, {c_.n_experts, c_.dim}, "ffn_gate_inp", router, "ffn.router");
    if (family_.mixture.biases) add(Role::RouterBias, {c_.n_experts}, "ffn_gate_inp", router, "ffn.router", ".bias");
    if (family_.mixture.selection_bias) {
      add(Role::SelectionBias, {c_.n_experts}, "exp_probs_b", "", "ffn.selection", ".bias");
      rename_hf(router + ".e_score_correction_bias");
    }
    add_expert_parts({Role::ExpertW1, Role::ExpertW3, Role::ExpertW2}, ".weight");
    if (family_.mixture.biases) add_expert_parts({Role::ExpertB1, Role::ExpertB3, Role::ExpertB2}, ".bias");
    if (family_.mixture.shared_gate && c_.shared_dim > 0) {
      add(Role::SharedGate, {c_.dim}, "ffn_gate_inp_shexp", fmt::format("{}.shared_expert_gate", hf_.ffn),
          "ffn.shared_gate");
    }
  }

  void add_expert_parts(std::array<Role, 3> roles, Text kind) {
    constexpr std::array kGguf{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    constexpr std::array kModule{"ffn.experts.w1", "ffn.experts.w3", "ffn.experts.w2"};
    for (size_t i = 0; i < 3; ++i) {
      std::vector<int64_t> shape{c_.n_experts, i < 2 ? c_.expert_dim : c_.dim};
      if (kind == ".weight") shape.push_back(i < 2 ? c_.dim : c_.expert_dim);
      add(roles[i], std::move(shape), kGguf[i], fmt::format("{}.experts.{{}}.{}", hf_.ffn, hf_.expert[i]), kModule[i],
          kind);
      if (hf_.packed_experts) pack(hf_.expert[i], i == 1 ? 1 : 0, i < 2 ? 2 : 1);
    }
  }

  // Marks the last tensor as columns first, first + step, … of the Hugging Face tensor `matrix` (see HfPacked).
  void pack(Text matrix, int64_t first, int64_t step) {
    TensorSpec& spec = tensors_.back();
    HfPacked& packed = spec.hf_packed;
    packed.name = fmt::format("model.layers.{}.{}.experts.{}", layer_, hf_.ffn, matrix);
    packed.shape = {spec.shape[0], step * spec.shape[1]};
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
  }

  void add_mtp() {
    add(Role::MtpEmbeddingNorm, {c_.dim}, "nextn.enorm", "enorm", "embedding_norm");
    add(Role::MtpHiddenNorm, {c_.dim}, "nextn.hnorm", "hnorm", "hidden_norm");
    add(Role::MtpProjection, {c_.dim, 2 * c_.dim}, "nextn.eh_proj", "eh_proj", "projection");
    add(Role::MtpOutputNorm, {c_.dim}, "nextn.shared_head_norm", "shared_head.norm", "output_norm");
  }

  // Marks the last `count` tensors as rows of a fused tensor, named `gguf` + `kind` in GGUF and `hf` + `kind` in
  // Hugging Face files. An empty name means that the format has separate tensors. If `gguf_writes` is false, Folio
  // reads the fused tensor from GGUF files, but writes separate ones.
  void fuse(size_t count, Text gguf, bool gguf_writes, Text hf, Text kind) {
    const std::span<TensorSpec> parts = std::span(tensors_).last(count);
    int64_t rows = 0, first = 0;
    for (const TensorSpec& spec : parts) rows += spec.shape[0];
    for (TensorSpec& spec : parts) {
      if (!gguf.empty()) spec.gguf_fused = {fmt::format("blk.{}.{}{}", layer_, gguf, kind), first, rows};
      if (!hf.empty()) spec.hf_fused = {fmt::format("model.layers.{}.{}{}", layer_, hf, kind), first, rows};
      spec.gguf_writes_fused = gguf_writes;
      first += spec.shape[0];
    }
  }

  const ModelConfig& c_;
  const FamilyInfo& family_;
  HfFamily hf_;
  GgufFamily gguf_;
  int64_t layer_ = -1;
  std::vector<TensorSpec> tensors_;
};

}  // namespace

std::vector<TensorSpec> tensor_manifest(const ModelConfig& config) { return ManifestBuilder(config).build(); }

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const TensorSpec& spec : tensor_manifest(config)) count += spec.elements();
  return count;
}

}  // namespace folio::core
