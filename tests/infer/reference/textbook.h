// Runs a model of any family in double precision, in the simplest way: one position at a time, without batches or KV
// blocks. Tests compare the engine's results with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "core/manifest.h"
#include "core/weights.h"

namespace folio::infer::test {

class Textbook {
 public:
  explicit Textbook(const core::StoredModel& model) : c_(model.config), layers_(static_cast<size_t>(c_.n_layers)) {
    const auto manifest = core::tensor_manifest(c_);
    for (size_t i = 0; i < manifest.size(); ++i) {
      auto& place = manifest[i].layer < 0 ? model_ : layers_[static_cast<size_t>(manifest[i].layer)];
      place[manifest[i].role] = core::to_floats(model.tensors[i]);
    }
    if (c_.tie_embeddings) model_[Role::Output] = model_[Role::TokenEmbedding];
  }

  /// Returns the largest Σ_d |q_d k_d| / sqrt(head_dim) so far. A relative error e of the keys changes a score by at
  /// most e times this value.
  [[nodiscard]] double largest_score() const { return largest_score_; }

  /// The experts that the engine selected: for each (layer, position), one flag per expert. logits() selects the same.
  using Choices = std::map<std::pair<size_t, size_t>, std::vector<bool>>;
  void set_choices(Choices choices) { choices_ = std::move(choices); }

  /// Returns the logits (tokens, vocab_size) of a whole sequence, computed from its first token.
  std::vector<std::vector<double>> logits(std::span<const int32_t> tokens) {
    std::vector<std::vector<double>> result;
    keys_.assign(layers_.size(), {});
    values_.assign(layers_.size(), {});
    for (size_t position = 0; position < tokens.size(); ++position) {
      const auto dim = static_cast<size_t>(c_.dim);
      const float* row = &model_[Role::TokenEmbedding][static_cast<size_t>(tokens[position]) * dim];
      std::vector<double> x(row, row + dim);
      for (double& v : x) v *= c_.embedding_scale;
      for (size_t l = 0; l < layers_.size(); ++l) layer(l, position, x);
      result.push_back(times(model_[Role::Output], normed(x, model_[Role::OutputNorm], c_.norm_eps)));
      for (double& v : result.back()) v = capped(v * c_.logit_scale, c_.logit_cap);
    }
    return result;
  }

 private:
  using Role = core::Role;
  using Vector = std::vector<double>;

  static Vector times(const std::vector<float>& weight, const Vector& x) {
    Vector y(weight.size() / x.size(), 0.0);
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t i = 0; i < x.size(); ++i) y[r] += static_cast<double>(weight[r * x.size() + i]) * x[i];
    }
    return y;
  }

  [[nodiscard]] static Vector normed(const Vector& x, const std::vector<float>& weight, double eps) {
    double sum = 0.0;
    for (const double v : x) sum += v * v;
    const double norm = std::sqrt(sum / static_cast<double>(x.size()) + eps);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / norm * weight[i];
    return y;
  }

  static double capped(double x, double cap) { return cap > 0.0 ? cap * std::tanh(x / cap) : x; }

  // Adds the bias to the queries or keys x of all heads, normalizes them and applies RoPE. Skips an empty bias or norm.
  void finish(Vector& x, size_t l, const std::vector<float>& bias, const std::vector<float>& norm,
              size_t position) const {
    const auto head_dim = static_cast<size_t>(c_.head_dim);
    const bool halves = core::info(c_.family).pairs == core::RopePairs::Halves;
    const auto rotated = static_cast<size_t>(c_.rotated());
    const bool local = c_.local_rope_theta > 0.0F && c_.has_window(static_cast<int64_t>(l));
    const double theta = local ? c_.local_rope_theta : c_.rope_theta;
    add(x, bias);
    for (size_t first = 0; !norm.empty() && first < x.size(); first += norm.size()) {  // a norm spans one head or all
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      const Vector of_heads = normed({begin, begin + static_cast<ptrdiff_t>(norm.size())}, norm, c_.norm_eps);
      std::copy(of_heads.begin(), of_heads.end(), begin);
    }
    for (size_t head = 0; head < x.size(); head += head_dim) rotate(x, head, rotated, position, theta, halves);
  }

  static void add(Vector& x, const std::vector<float>& bias) {
    for (size_t i = 0; i < bias.size(); ++i) x[i] += bias[i];
  }

  void layer(size_t l, size_t position, Vector& x) {
    auto& w = layers_[l];
    const auto dim = static_cast<size_t>(c_.dim);
    const auto head_dim = static_cast<size_t>(c_.head_dim);
    const bool pre_norms = core::info(c_.family).pre_norms;
    const Vector attention_in = pre_norms ? normed(x, w[Role::AttentionNorm], c_.norm_eps) : x;
    Vector q;
    if (c_.latent()) {
      q = project_latent(l, position, attention_in);
    } else {
      q = times(w[Role::Wq], attention_in);
      keys_[l].push_back(times(w[Role::Wk], attention_in));
      values_[l].push_back(times(w[Role::Wv], attention_in));
      finish(q, l, w[Role::Bq], w[Role::QueryNorm], position);
      finish(keys_[l].back(), l, w[Role::Bk], w[Role::KeyNorm], position);
      add(values_[l].back(), w[Role::Bv]);
    }

    const bool windowed = c_.has_window(static_cast<int64_t>(l));
    const auto window = static_cast<size_t>(windowed ? c_.sliding_window : 0);
    const double scale = c_.attention_scale > 0.0F ? static_cast<double>(c_.attention_scale)
                                                   : 1.0 / std::sqrt(static_cast<double>(head_dim));
    const size_t first_seen = window > 0 && position >= window ? position + 1 - window : 0;
    const auto value_dim = static_cast<size_t>(c_.latent() ? c_.v_head_dim : c_.head_dim);
    Vector heads(static_cast<size_t>(c_.heads_dim()), 0.0);
    for (int64_t h = 0; h < c_.n_heads; ++h) {
      const size_t from = static_cast<size_t>(h) * head_dim;
      const auto kv_head = static_cast<size_t>(h * c_.n_kv_heads / c_.n_heads);
      const size_t kv = kv_head * head_dim;
      Vector p(position + 1, 0.0);
      double sum = 0.0;
      for (size_t j = first_seen; j <= position; ++j) {
        double absolute = 0.0;
        for (size_t d = 0; d < head_dim; ++d) {
          p[j] += q[from + d] * keys_[l][j][kv + d];
          absolute += std::abs(q[from + d] * keys_[l][j][kv + d]);
        }
        largest_score_ = std::max(largest_score_, absolute * scale);
        p[j] = std::exp(capped(p[j] * scale, c_.attention_cap));
        sum += p[j];
      }
      if (!w[Role::AttentionSinks].empty())
        sum += std::exp(static_cast<double>(w[Role::AttentionSinks][static_cast<size_t>(h)]));
      for (size_t j = first_seen; j <= position; ++j) {
        for (size_t d = 0; d < value_dim; ++d) {
          heads[static_cast<size_t>(h) * value_dim + d] += p[j] / sum * values_[l][j][kv_head * value_dim + d];
        }
      }
    }
    Vector attended = times(w[Role::Wo], heads);
    add(attended, w[Role::Bo]);
    add_branch(std::move(attended), w[Role::PostAttentionNorm], x);

    const Vector ffn_in = pre_norms ? normed(x, w[Role::FfnNorm], c_.norm_eps) : x;
    const Vector routes = c_.has_experts(static_cast<int64_t>(l)) ? routes_of(l, position, ffn_in) : Vector{};
    for (size_t e = 0; e < routes.size(); ++e) {
      if (routes[e] == 0.0) continue;
      const auto expert = [&](Role role) {  // returns this expert's part of a stacked tensor
        const auto size = static_cast<ptrdiff_t>(w[role].size() / routes.size());
        const auto first = w[role].begin() + static_cast<ptrdiff_t>(e) * size;
        return std::vector<float>(first, first + size);
      };
      Vector out = feed_forward(ffn_in, expert(Role::ExpertW1), expert(Role::ExpertW3), expert(Role::ExpertW2),
                                expert(Role::ExpertB1), expert(Role::ExpertB3));
      add(out, expert(Role::ExpertB2));
      for (size_t i = 0; i < dim; ++i) x[i] += routes[e] * out[i];
    }
    if (w[Role::W1].empty()) return;
    double gate = 1.0;
    if (!w[Role::SharedGate].empty()) gate = sigmoid(times(w[Role::SharedGate], ffn_in)[0]);
    Vector out = feed_forward(ffn_in, w[Role::W1], w[Role::W3], w[Role::W2]);
    for (double& v : out) v *= gate;
    add_branch(std::move(out), w[Role::PostFfnNorm], x);
  }

  // Computes latent attention's keys and values, appends them to the cache, and returns the queries. Of each head's
  // query and key, only the last qk_rope_head_dim elements are rotated; in keys, these are the same for all heads.
  Vector project_latent(size_t l, size_t position, const Vector& in) {
    auto& w = layers_[l];
    const auto rank = static_cast<ptrdiff_t>(c_.kv_lora_rank);
    const auto nope = static_cast<size_t>(c_.qk_nope_head_dim);
    const auto head_dim = static_cast<size_t>(c_.head_dim);
    Vector q = w[Role::WqA].empty()
                   ? times(w[Role::Wq], in)
                   : times(w[Role::WqB], normed(times(w[Role::WqA], in), w[Role::QueryLatentNorm], 1e-6F));
    const auto rotated = static_cast<size_t>(c_.qk_rope_head_dim);
    for (size_t first = nope; first < q.size(); first += head_dim) rotate(q, first, rotated, position, c_.rope_theta);
    Vector joint = times(w[Role::WkvA], in);
    rotate(joint, static_cast<size_t>(rank), rotated, position, c_.rope_theta);
    const Vector latent = normed({joint.begin(), joint.begin() + rank}, w[Role::LatentNorm], 1e-6F);
    Vector& keys = keys_[l].emplace_back();
    for (size_t h = 0; h < static_cast<size_t>(c_.n_heads); ++h) {
      for (size_t d = 0; d < nope; ++d) {  // WkB (heads, rank, nope) has each head's key matrix transposed
        double sum = 0.0;
        for (size_t r = 0; r < latent.size(); ++r) {
          sum += static_cast<double>(w[Role::WkB][(h * latent.size() + r) * nope + d]) * latent[r];
        }
        keys.push_back(sum);
      }
      keys.insert(keys.end(), joint.begin() + rank, joint.end());
    }
    values_[l].push_back(times(w[Role::WvB], latent));
    return q;
  }

  // Applies RoPE to the n elements of x that begin at index `first`. A pair is two adjacent elements, or an element of
  // the first half and one of the second.
  static void rotate(Vector& x, size_t first, size_t n, size_t position, double theta, bool halves = false) {
    for (size_t pair = 0; pair < n / 2; ++pair) {
      const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(n);
      const double angle = static_cast<double>(position) * std::pow(theta, exponent);
      double& a = x[first + (halves ? pair : 2 * pair)];
      double& b = x[first + (halves ? pair + n / 2 : 2 * pair + 1)];
      const double re = a;
      const double im = b;
      a = re * std::cos(angle) - im * std::sin(angle);
      b = re * std::sin(angle) + im * std::cos(angle);
    }
  }

  void add_branch(Vector branch, const std::vector<float>& post_norm, Vector& x) const {
    if (!post_norm.empty()) branch = normed(branch, post_norm, c_.norm_eps);
    for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<double>(c_.residual_scale) * branch[i];
  }

  // Returns W2 (silu(W1 in + b1) * (W3 in + b3)), or the same with the family's activation. Empty biases are
  // skipped.
  [[nodiscard]] Vector feed_forward(const Vector& in, const std::vector<float>& w1, const std::vector<float>& w3,
                                    const std::vector<float>& w2, const std::vector<float>& b1 = {},
                                    const std::vector<float>& b3 = {}) const {
    Vector gate = times(w1, in);
    Vector up = times(w3, in);
    add(gate, b1);
    add(up, b3);
    const core::Gate kind = core::info(c_.family).gate;
    for (size_t i = 0; i < gate.size(); ++i) {
      if (kind == core::Gate::Clamped) {
        const double g = std::min(gate[i], 7.0);
        gate[i] = g * sigmoid(1.702 * g) * (std::clamp(up[i], -7.0, 7.0) + 1.0);
        continue;
      }
      const double g = gate[i];
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (g + 0.044715 * g * g * g);
      gate[i] = (kind == core::Gate::Silu ? g * sigmoid(g) : 0.5 * g * (1.0 + std::tanh(inner))) * up[i];
    }
    return times(w2, gate);
  }

  static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

  // Returns the weight of each expert, 0 for unselected ones. Uses the selection of set_choices(), since rounding may
  // decide between close scores; route_test.cpp tests the selection.
  Vector routes_of(size_t l, size_t position, const Vector& in) {
    auto& w = layers_[l];
    Vector scores = times(w[Role::Router], in);
    add(scores, w[Role::RouterBias]);
    const bool softmax = core::info(c_.family).mixture.score == core::RouterScore::Softmax;
    double sum = 0.0;
    for (double& s : scores) s = softmax ? std::exp(s) : sigmoid(s);
    for (const double s : scores) sum += s;
    for (double& s : scores) s /= softmax ? sum : 1.0;
    const std::vector<bool>& chosen = choices_.at({l, position});
    double chosen_sum = 0.0;
    for (size_t e = 0; e < scores.size(); ++e) chosen_sum += chosen[e] ? scores[e] : 0.0;
    for (size_t e = 0; e < scores.size(); ++e) {
      scores[e] *= chosen[e] ? static_cast<double>(c_.route_scale) : 0.0;
      if (c_.normalize_routes) scores[e] /= chosen_sum;
    }
    return scores;
  }

  const core::ModelConfig& c_;
  double largest_score_ = 0.0;
  Choices choices_;
  std::map<Role, std::vector<float>> model_;
  std::vector<std::map<Role, std::vector<float>>> layers_;
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> values_;
};

}  // namespace folio::infer::test
