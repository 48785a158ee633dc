// Attention weights, and direct logit attribution (Elhage et al., "A Mathematical Framework for Transformer Circuits",
// 2021). The logit of token t is x · u with u = g ⊙ W_U[t] / rms(x), where g is the weight of the final norm and W_U
// the output projection. The residual x is the sum of the embedding and all branches' outputs, so the logit is the sum
// of their products with u. 1 / rms(x) is treated as a constant, as is the factor of a post-norm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "infer/explain/analysis.h"
#include "infer/reference/kernels.h"

namespace folio::infer::explain {
namespace {

using core::Role;

double dot(std::span<const float> a, std::span<const float> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus{},
                               [](float x, float y) { return double{x} * y; });
}

// Returns x · wᵀ for x (n_rows, k) and w (n_out, k).
std::vector<float> product(std::span<const float> x, std::span<const float> w, size_t k) {
  const size_t n_rows = x.size() / k;
  const size_t n_out = w.size() / k;
  std::vector<float> out(n_rows * n_out);
  kernels::kernels_for(core::select_isa()).matmul(x.data(), n_rows, w.data(), k, 0, n_out, out.data(), n_out, false);
  return out;
}

std::vector<float> transposed(std::span<const float> matrix, size_t n_rows) {
  const size_t n_columns = matrix.size() / n_rows;
  std::vector<float> out(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) out[i % n_columns * n_rows + i / n_columns] = matrix[i];
  return out;
}

// Each row of `directions` (T, dim) is a vector whose dot product with the row's residual is the row's logit.
// Multiplies the vectors by the residual scale and the post-norm's factors, if any, so that a vector's dot product with
// a head's output after Wo is the head's contribution to the logit.
void pass_post_norm(std::span<float> directions, const Tensors& tensors, int64_t layer, const Trace& trace,
                    std::span<const float> wo, std::span<const float> bias) {
  const core::ModelConfig& config = tensors.config();
  const auto dim = static_cast<size_t>(config.dim);
  for (float& v : directions) v *= config.residual_scale;
  const std::vector<float> weight = tensors.floats(Role::PostAttentionNorm, layer);
  if (weight.empty()) return;
  std::vector<float> y = product(trace.at("heads", layer), wo, wo.size() / dim);
  for (size_t i = 0; i < y.size() && !bias.empty(); ++i) y[i] += bias[i % dim];
  for (size_t row = 0; row < trace.tokens.size(); ++row) {
    const double size = rms(trace.row(y, row), config.norm_eps);
    for (size_t i = 0; i < dim; ++i) directions[row * dim + i] *= static_cast<float>(weight[i] / size);
  }
}

}  // namespace

const core::TensorView* Tensors::find(Role role, int64_t layer) const {
  if (role == Role::Output && config().tie_embeddings) role = Role::TokenEmbedding;
  const auto found = std::ranges::find_if(
      manifest_, [&](const core::TensorSpec& spec) { return spec.role == role && spec.layer == layer; });
  return found == manifest_.end() ? nullptr : &model_.tensors[static_cast<size_t>(found - manifest_.begin())];
}

std::vector<float> Tensors::floats(Role role, int64_t layer) const {
  const core::TensorView* found = find(role, layer);
  return found == nullptr ? std::vector<float>{} : core::to_floats(*found);
}

double rms(std::span<const float> x, float eps) { return std::sqrt(dot(x, x) / static_cast<double>(x.size()) + eps); }

std::vector<float> difference(std::vector<float> after, const std::vector<float>& before) {
  for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

void expand_latents(const Tensors& tensors, int64_t layer, Trace& trace, bool for_saving) {
  const core::ModelConfig& config = tensors.config();
  const size_t n = trace.tokens.size();
  const auto n_heads = static_cast<size_t>(config.n_heads);
  const auto rank = static_cast<size_t>(config.kv_lora_rank);
  const auto nope = static_cast<size_t>(config.qk_nope_head_dim);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const std::vector<float>& latents = trace.at("latent", layer);  // (T, rank + qk_rope_head_dim)
  std::vector<float> c;                                           // (T, rank)
  for (size_t row = 0; row < n; ++row) {
    const auto latent = trace.row(latents, row).first(rank);
    c.insert(c.end(), latent.begin(), latent.end());
  }
  const std::vector<float> wk = tensors.floats(Role::WkB, layer);  // (heads, rank, nope)
  std::vector<float> keys(n * n_heads * head_dim);
  for (size_t head = 0; head < n_heads; ++head) {
    const auto of_head = std::span(wk).subspan(head * rank * nope, rank * nope);
    const std::vector<float> key = product(c, transposed(of_head, rank), rank);
    for (size_t row = 0; row < n; ++row) {
      std::ranges::copy(trace.row(key, row), keys.begin() + static_cast<ptrdiff_t>((row * n_heads + head) * head_dim));
    }
  }
  const auto keys_with = [&](const std::vector<float>& all) {  // copies each row's RoPE part to all heads' keys
    for (size_t at = 0; at < n * n_heads; ++at) {
      std::ranges::copy(trace.row(all, at / n_heads).subspan(rank),
                        keys.begin() + static_cast<ptrdiff_t>(at * head_dim + nope));
    }
    return keys;
  };
  trace.values[fmt::format("layers.{}.key", layer)] = keys_with(latents);
  if (!for_saving) return;
  trace.values[fmt::format("layers.{}.projected_key", layer)] = keys_with(trace.at("projected_latent", layer));
  const std::vector<float> wv = tensors.floats(Role::WvB, layer);              // (heads, value_dim, rank)
  trace.values[fmt::format("layers.{}.value", layer)] = product(c, wv, rank);  // (T, heads * value_dim)
}

std::vector<float> attention_weights(const Tensors& tensors, int64_t layer, const Trace& trace) {
  const core::ModelConfig& config = tensors.config();
  const double cap = config.attention_cap;
  const size_t n = trace.tokens.size();
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto n_heads = static_cast<size_t>(config.n_heads);
  const auto window = static_cast<size_t>(positions_seen(config, layer));
  const std::vector<float> sinks = tensors.floats(Role::AttentionSinks, layer);
  const std::vector<float>& queries = trace.at("query", layer);
  const std::vector<float>& keys = trace.at("key", layer);
  std::vector<float> weights(n_heads * n * n);
  for (size_t head = 0; head < n_heads; ++head) {
    const size_t kv_head = head / (n_heads / static_cast<size_t>(config.n_kv_heads));
    for (size_t row = 0; row < n; ++row) {
      const size_t begin = row + 1 - std::min(row + 1, window);
      std::vector<double> scores;
      for (size_t j = begin; j <= row; ++j) {
        const double s = config.score_scale() * dot(trace.row(queries, row).subspan(head * head_dim, head_dim),
                                                    trace.row(keys, j).subspan(kv_head * head_dim, head_dim));
        scores.push_back(cap > 0.0 ? cap * std::tanh(s / cap) : s);
      }
      if (!sinks.empty()) scores.push_back(sinks[head]);
      const double largest = *std::ranges::max_element(scores);
      double sum = 0.0;
      for (double& s : scores) sum += s = std::exp(s - largest);
      for (size_t j = begin; j <= row; ++j) {
        weights[(head * n + row) * n + j] = static_cast<float>(scores[j - begin] / sum);
      }
    }
  }
  return weights;
}

Json attribute(Runner& runner, const Tensors& tensors, const Trace& trace, std::span<const int32_t> targets,
               const Interventions& interventions) {
  const core::ModelConfig& config = tensors.config();
  const auto dim = static_cast<size_t>(config.dim);
  const auto head_dim = static_cast<size_t>(config.heads_dim() / config.n_heads);
  const std::vector<float>& last = trace.level(config.n_layers);
  const std::vector<float> logits = runner.logits_of(last, false);
  const std::vector<float> norm = tensors.floats(Role::OutputNorm);
  const core::TensorView& output = *tensors.find(Role::Output);
  Json rows;
  std::vector<double> sums;       // per row: sum of all contributions to the logit
  std::vector<float> directions;  // (T, dim): for each row, the vector u such that logit = residual stream · u
  for (size_t row = 0; row < targets.size(); ++row) {
    std::vector<float> u = core::to_floats(core::rows_of(output, targets[row], 1));
    const double size = rms(trace.row(last, row), config.norm_eps);
    for (size_t i = 0; i < dim; ++i) u[i] *= static_cast<float>(norm[i] / size);
    sums.push_back(dot(trace.row(trace.level(0), row), u));
    rows.push_back({{"token", targets[row]},
                    {"logit", trace.row(logits, row)[static_cast<size_t>(targets[row])]},
                    {"embedding", sums.back()}});
    directions.insert(directions.end(), u.begin(), u.end());
  }
  const auto add = [&](size_t row, Json& to, double share) {
    to.push_back(share);
    sums[row] += share;
  };
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    const std::vector<float>& heads = trace.at("heads", layer);
    const std::vector<float> wo = tensors.floats(Role::Wo, layer);  // (dim, heads * head_dim)
    const std::vector<float> bias = tensors.floats(Role::Bo, layer);
    std::vector<float> u = directions;
    pass_post_norm(u, tensors, layer, trace, wo, bias);
    const std::vector<float> back = product(u, transposed(wo, dim), dim);  // u · Wo: (T, heads * head_dim)
    for (size_t row = 0; row < targets.size(); ++row) {
      const auto along = [&](const std::vector<float>& level) {
        return dot(trace.row(level, row), trace.row(directions, row));
      };
      const double mid = along(trace.at("attention_residual", layer));
      const bool replaced = interventions.replace_attention(layer, row);  // true: no per-head attribution
      rows[row]["replaced"].push_back(replaced);
      Json& shares = rows[row]["heads"].emplace_back();
      for (size_t at = 0; at < wo.size() / dim; at += head_dim) {
        add(row, shares,
            replaced ? 0.0
                     : dot(trace.row(heads, row).subspan(at, head_dim), trace.row(back, row).subspan(at, head_dim)));
      }
      const double of_bias = bias.empty() ? 0.0 : dot(bias, trace.row(u, row));
      add(row, rows[row]["attention_bias"], replaced ? mid - along(trace.level(layer)) : of_bias);
      add(row, rows[row]["ffn"], along(trace.level(layer + 1)) - mid);
    }
  }
  for (size_t row = 0; row < sums.size(); ++row) rows[row]["remainder"] = rows[row]["logit"].get<double>() - sums[row];
  return rows;
}

}  // namespace folio::infer::explain
