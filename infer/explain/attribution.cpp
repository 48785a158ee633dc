// Attention weights, and direct logit attribution (Elhage et al., "A Mathematical Framework for Transformer Circuits",
// 2021). The logit of token t is x · u with u = g ⊙ W_U[t] / rms(x): the weight g and the factor of the final norm, and
// a row of the output projection. The residual x is the sum of the embedding and of what the branches add, so the logit
// is the sum of their products with u. The factor of a post-norm is held in the same way.
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

float inverse_rms(std::span<const float> x, float eps) {
  return static_cast<float>(1.0 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + eps));
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

// Returns the directions (T, dim) whose products with Wo · heads + bias are the attention's shares: `directions`, each
// row's u, times the residual scale and, if there is a post-norm, its weight and factor.
std::vector<float> before_post_norm(const core::ModelConfig& config, const Trace& trace,
                                    std::span<const float> directions, std::span<const float> heads,
                                    std::span<const float> wo, std::span<const float> bias,
                                    std::span<const float> post_norm) {
  const auto dim = static_cast<size_t>(config.dim);
  std::vector<float> u(directions.begin(), directions.end());
  for (float& v : u) v *= config.residual_scale;
  if (post_norm.empty()) return u;
  std::vector<float> y = product(heads, wo, wo.size() / dim);
  for (size_t i = 0; i < y.size() && !bias.empty(); ++i) y[i] += bias[i % dim];
  for (size_t row = 0; row < trace.tokens.size(); ++row) {
    const float factor = inverse_rms(trace.row(y, row), config.norm_eps);
    for (size_t i = 0; i < dim; ++i) u[row * dim + i] *= post_norm[i] * factor;
  }
  return u;
}

}  // namespace

Tensors::Tensors(const core::StoredModel& model) {
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) views_[{manifest[i].role, manifest[i].layer}] = &model.tensors[i];
}

std::vector<float> Tensors::operator()(Role role, int64_t layer) const {
  const auto found = views_.find({role, layer});
  return found == views_.end() ? std::vector<float>{} : core::to_floats(*found->second);
}

std::vector<float> Tensors::output_row(int32_t token) const {
  const bool tied = !views_.contains({Role::Output, -1});
  return core::to_floats(core::rows_of(*views_.at({tied ? Role::TokenEmbedding : Role::Output, -1}), token, 1));
}

std::vector<float> attention_weights(const core::ModelConfig& config, int64_t layer, const Trace& trace,
                                     const std::vector<float>& sinks) {
  const size_t n = trace.tokens.size();
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto n_heads = static_cast<size_t>(config.n_heads);
  const auto window = static_cast<size_t>(positions_seen(config, layer));
  std::vector<float> weights(n_heads * n * n);
  for (size_t head = 0; head < n_heads; ++head) {
    const size_t kv_head = head / (n_heads / static_cast<size_t>(config.n_kv_heads));
    for (size_t row = 0; row < n; ++row) {
      const auto query = trace.row(trace.at("query", layer), row).subspan(head * head_dim, head_dim);
      const size_t begin = row + 1 - std::min(row + 1, window);
      std::vector<double> scores;
      for (size_t j = begin; j <= row; ++j) {
        const auto key = trace.row(trace.at("key", layer), j).subspan(kv_head * head_dim, head_dim);
        scores.push_back(dot(query, key) * config.score_scale());
        if (config.attention_cap > 0.0F)
          scores.back() = config.attention_cap * std::tanh(scores.back() / config.attention_cap);
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
  const core::ModelConfig& config = runner.config();
  const auto dim = static_cast<size_t>(config.dim);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const std::vector<float>& last = trace.level(config.n_layers);
  const std::vector<float> logits = runner.logits_of(last, false);
  const std::vector<float> norm = tensors(Role::OutputNorm);
  Json rows;
  std::vector<double> sums;       // of each row's shares
  std::vector<float> directions;  // (T, dim): u
  for (size_t row = 0; row < targets.size(); ++row) {
    std::vector<float> u = tensors.output_row(targets[row]);
    const float factor = inverse_rms(trace.row(last, row), config.norm_eps);
    for (size_t i = 0; i < dim; ++i) u[i] *= norm[i] * factor;
    sums.push_back(dot(trace.row(trace.level(0), row), u));
    rows.push_back({{"token", targets[row]},
                    {"logit", trace.row(logits, row)[static_cast<size_t>(targets[row])]},
                    {"embedding", sums.back()}});
    directions.insert(directions.end(), u.begin(), u.end());
  }
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    const std::vector<float>& heads = trace.at("heads", layer);
    const std::vector<float>& mid = trace.at("attention_residual", layer);
    const std::vector<float> wo = tensors(Role::Wo, layer);  // (dim, heads * head_dim)
    const std::vector<float> bias = tensors(Role::Bo, layer);
    const std::vector<float> u =
        before_post_norm(config, trace, directions, heads, wo, bias, tensors(Role::PostAttentionNorm, layer));
    const std::vector<float> back = product(u, transposed(wo, dim), dim);  // (T, heads * head_dim): u · Wo
    for (size_t row = 0; row < targets.size(); ++row) {
      const std::span<const float> direction = trace.row(directions, row);
      const double middle = dot(trace.row(mid, row), direction);
      Json shares;
      const auto add = [&](Json& to, double share) {
        to.push_back(share);
        sums[row] += share;
      };
      // What replaces the attention's output comes from no head.
      const bool replaced = interventions.replace_attention(layer);
      const std::span<const float> z = trace.row(heads, row);
      for (size_t at = 0; at < z.size(); at += head_dim) {
        add(shares, replaced ? 0.0 : dot(z.subspan(at, head_dim), trace.row(back, row).subspan(at, head_dim)));
      }
      rows[row]["heads"].push_back(std::move(shares));
      add(rows[row]["attention_bias"], replaced       ? middle - dot(trace.row(trace.level(layer), row), direction)
                                       : bias.empty() ? 0.0
                                                      : dot(bias, trace.row(u, row)));
      add(rows[row]["ffn"], dot(trace.row(trace.level(layer + 1), row), direction) - middle);
    }
  }
  for (size_t row = 0; row < targets.size(); ++row)
    rows[row]["remainder"] = rows[row]["logit"].get<double>() - sums[row];
  return rows;
}

}  // namespace folio::infer::explain
