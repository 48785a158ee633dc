// A Llama in double precision, as a textbook has it: no cache, no blocks, one position after the other.
// What the engine computes in a hundred clever ways has to be this.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "infer/model/model.h"

namespace folio::infer::test {

class Textbook {
 public:
  explicit Textbook(const Model& model) : m_(model), c_(model.config()) {}

  /// (tokens, vocab_size)
  std::vector<std::vector<double>> logits(std::span<const int32_t> tokens) {
    std::vector<std::vector<double>> result;
    keys_.assign(m_.layers.size(), {});
    values_.assign(m_.layers.size(), {});
    for (size_t position = 0; position < tokens.size(); ++position) {
      const auto dim = static_cast<size_t>(c_.dim);
      std::vector<float> row(dim);
      m_.token_embedding.row(static_cast<size_t>(tokens[position]), row);
      std::vector<double> x(row.begin(), row.end());
      for (size_t l = 0; l < m_.layers.size(); ++l) layer(l, position, x);
      result.push_back(times(m_.output, normed(x, m_.output_norm)));
    }
    return result;
  }

 private:
  using Vector = std::vector<double>;

  static Vector times(const Matrix& weight, const Vector& x) {
    Vector y(weight.n_out, 0.0);
    std::vector<float> row(x.size());
    for (size_t r = 0; r < weight.n_out; ++r) {
      weight.row(r, row);
      for (size_t i = 0; i < x.size(); ++i) y[r] += row[i] * x[i];
    }
    return y;
  }

  [[nodiscard]] Vector normed(const Vector& x, const float* weight) const {
    double sum = 0.0;
    for (const double v : x) sum += v * v;
    const double norm = std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(c_.norm_eps));
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / norm * weight[i];
    return y;
  }

  void rotate(Vector& x, size_t position) const {
    const auto head_dim = static_cast<size_t>(c_.head_dim());
    for (size_t i = 0; i < x.size(); i += 2) {
      const double exponent = -static_cast<double>(i % head_dim) / static_cast<double>(head_dim);
      const double angle = static_cast<double>(position) * std::pow(static_cast<double>(c_.rope_theta), exponent);
      const double re = x[i];
      const double im = x[i + 1];
      x[i] = re * std::cos(angle) - im * std::sin(angle);
      x[i + 1] = re * std::sin(angle) + im * std::cos(angle);
    }
  }

  void layer(size_t l, size_t position, Vector& x) {
    const LayerWeights& w = m_.layers[l];
    const auto dim = static_cast<size_t>(c_.dim);
    const auto head_dim = static_cast<size_t>(c_.head_dim());
    const Vector attention_in = normed(x, w.attention_norm);
    Vector q = times(w.wq, attention_in);
    keys_[l].push_back(times(w.wk, attention_in));
    values_[l].push_back(times(w.wv, attention_in));
    rotate(q, position);
    rotate(keys_[l].back(), position);

    Vector heads(dim, 0.0);
    for (int64_t h = 0; h < c_.n_heads; ++h) {
      const size_t from = static_cast<size_t>(h) * head_dim;
      const size_t kv = static_cast<size_t>(h * c_.n_kv_heads / c_.n_heads) * head_dim;
      Vector p(position + 1, 0.0);
      double sum = 0.0;
      for (size_t j = 0; j <= position; ++j) {
        for (size_t d = 0; d < head_dim; ++d) p[j] += q[from + d] * keys_[l][j][kv + d];
        p[j] = std::exp(p[j] / std::sqrt(static_cast<double>(head_dim)));
        sum += p[j];
      }
      for (size_t j = 0; j <= position; ++j) {
        for (size_t d = 0; d < head_dim; ++d) heads[from + d] += p[j] / sum * values_[l][j][kv + d];
      }
    }
    const Vector attended = times(w.wo, heads);
    for (size_t i = 0; i < dim; ++i) x[i] += attended[i];

    const Vector ffn_in = normed(x, w.ffn_norm);
    Vector gate = times(w.w1, ffn_in);
    const Vector up = times(w.w3, ffn_in);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
    const Vector down = times(w.w2, gate);
    for (size_t i = 0; i < dim; ++i) x[i] += down[i];
  }

  const Model& m_;
  const core::ModelConfig& c_;
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> values_;
};

}  // namespace folio::infer::test
