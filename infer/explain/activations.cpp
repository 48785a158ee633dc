// Names activations as TransformerLens (https://github.com/TransformerLensOrg/TransformerLens) does with fold_ln=True.
// "hook_normalized" is a residual divided by its root mean square, without the norm's weight. "hook_q" and "hook_k" are
// the values before the query and key norms and RoPE. A head's elements are in the order of Hugging Face's files.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/safetensors.h"
#include "core/rope_layout.h"
#include "infer/explain/analysis.h"

namespace folio::infer::explain {
namespace {

std::vector<float> normalized(std::vector<float> rows, const core::ModelConfig& config) {
  const auto dim = static_cast<size_t>(config.dim);
  for (size_t first = 0; first < rows.size(); first += dim) {
    const std::span<float> row = std::span(rows).subspan(first, dim);
    const double size = rms(row, config.norm_eps);
    for (float& v : row) v = static_cast<float>(v / size);
  }
  return rows;
}

}  // namespace

std::map<std::string, Activation> named_activations(const core::ModelConfig& config, const Trace& trace,
                                                    std::vector<std::vector<float>> attention) {
  const auto n = static_cast<int64_t>(trace.tokens.size());
  std::map<std::string, Activation> all;
  const auto add = [&](const std::string& name, std::vector<float> values) {
    all[name] = {.shape = {n, static_cast<int64_t>(values.size()) / n}, .values = std::move(values)};
  };
  const auto add_heads = [&](const std::string& name, std::vector<float> values, int64_t head_dim) {
    const int64_t n_heads = static_cast<int64_t>(values.size()) / (n * head_dim);
    all[name] = {.shape = {n, n_heads, head_dim}, .values = std::move(values)};
  };
  const bool permuted = std::ranges::any_of(core::tensor_manifest(config), &core::TensorSpec::rope_permuted);
  const auto add_rotated = [&](int64_t layer, const std::string& hook, const char* what) {
    const std::vector<float>& heads = trace.at(what, layer);
    add_heads(fmt::format("blocks.{}.attn.{}", layer, hook),  // in the order of Hugging Face's files
              permuted ? core::reordered_rows(core::RopePairs::Halves, heads, config.head_dim, 1) : heads,
              config.head_dim);
  };
  const int64_t value_dim = config.heads_dim() / config.n_heads;
  add("hook_embed", trace.level(0));
  for (int64_t l = 0; l < config.n_layers; ++l) {
    const std::string block = fmt::format("blocks.{}.", l);
    const std::vector<float>& mid = trace.at("attention_residual", l);
    add(block + "hook_resid_pre", trace.level(l));
    add_rotated(l, "hook_q", "projected_query");
    add_rotated(l, "hook_k", "projected_key");
    add_rotated(l, "hook_rot_q", "query");
    add_rotated(l, "hook_rot_k", "key");
    add_heads(block + "attn.hook_v", trace.at("value", l), value_dim);
    all[block + "attn.hook_pattern"] = {.shape = {config.n_heads, n, n},
                                        .values = std::move(attention[static_cast<size_t>(l)])};
    add_heads(block + "attn.hook_z", trace.at("heads", l), value_dim);
    add(block + "hook_attn_out", difference(mid, trace.level(l)));
    add(block + "hook_resid_mid", mid);
    if (!config.has_experts(l)) add(block + "mlp.hook_post", trace.at("ffn_hidden", l));
    add(block + "hook_mlp_out", difference(trace.level(l + 1), mid));
    add(block + "hook_resid_post", trace.level(l + 1));
    if (!core::info(config.family).pre_norms) continue;
    add(block + "ln1.hook_normalized", normalized(trace.level(l), config));
    add(block + "ln2.hook_normalized", normalized(mid, config));
  }
  add("ln_final.hook_normalized", normalized(trace.level(config.n_layers), config));
  add("logits", trace.at("logits"));
  return all;
}

void save(const Explanation& explanation, const std::filesystem::path& file) {
  std::vector<core::TensorView> views;
  for (const auto& [name, one] : explanation.activations) {
    views.push_back({.name = name, .shape = one.shape, .bytes = std::as_bytes(std::span(one.values))});
  }
  core::write_safetensors(file, views);
}

}  // namespace folio::infer::explain
