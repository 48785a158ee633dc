// Linear layers with the same input as one product, y = x [W1; W2; …]ᵀ. A LoRA adapter of layer i adds to its columns:
//   y_i += s_i z_i A_iᵀ B_iᵀ,  z_i = dropout(x).
// Backward, with u_i = s_i dy_i B_i [N, rank]:
//   dx = dy [W1; W2; …] + Σ dropout(u_i A_i),   dB_i = s_i dy_iᵀ (z_i A_iᵀ),   dA_i = u_iᵀ z_i.
// Frozen weights get no gradients. Shapes: N rows, k inputs, n outputs, r rank. Types: T of products, R = Real<T>.
#pragma once

#include <utility>
#include <vector>

#include "train/fused/operations.h"
#include "train/lora/lora.h"

namespace folio::train::fused {

/// Returns the layer's frozen weight, or null if the weight is trained. low_rank_of() returns its adapter, or null.
[[nodiscard]] inline const lora::FrozenMatrix* frozen_of(const nn::Linear& layer) {
  const auto* lora = layer->as<lora::LoraLinearImpl>();
  return lora == nullptr ? nullptr : lora->frozen().get();
}
[[nodiscard]] inline const lora::LoraWeights* low_rank_of(const nn::Linear& layer) {
  const auto* lora = layer->as<lora::LoraLinearImpl>();
  return lora == nullptr || !lora->low_rank().a.defined() ? nullptr : &lora->low_rank();
}

/// One of several linear layers whose weights are stacked for one product: its outputs are columns [first, first + n).
struct Columns {
  int64_t first, n;
  bool frozen;
  const lora::LoraWeights* adapter;  ///< LoRA matrices a [r, k] and b [n, r]; null: no adapter
  Dropout dropout;                   ///< dropout of the adapter's input
};

/// The weights of linear layers that are multiplied in one product of type T. Created for each pass.
struct StackedWeight {
  Tensor weight;  ///< [sum of n_i, k] of type T; undefined without layers, and between passes if frozen
  std::vector<Columns> layers;
};

struct StackedLinears {
  std::vector<nn::Linear> layers;
  uint64_t first_site;  ///< `site` of make_dropout() for the first layer's adapter; layer i uses first_site + i
  Operand operand{};

  [[nodiscard]] bool frozen() const { return !layers.empty() && frozen_of(layers.front()) != nullptr; }

  /// Returns the stacked weights in `type`. Caches trained weights until they change, and never caches frozen weights.
  [[nodiscard]] Tensor weight(torch::ScalarType type) {
    if (layers.empty()) return {};
    if (!frozen()) {
      std::vector<Tensor> weights;
      for (const nn::Linear& layer : layers) weights.push_back(layer->weight);
      return operand.get(weights, type);
    }
    if (layers.size() == 1) return frozen_of(layers.front())->to(type);
    int64_t rows = 0, first = 0;
    for (const nn::Linear& layer : layers) rows += layer->out();
    const Tensor stacked = torch::empty({rows, layers.front()->in()}, type);
    for (const nn::Linear& layer : layers) {
      frozen_of(layer)->write(stacked.narrow(0, std::exchange(first, first + layer->out()), layer->out()));
    }
    return stacked;
  }

  [[nodiscard]] StackedWeight product(torch::ScalarType type, bool training, uint64_t key) {
    StackedWeight product{.weight = weight(type), .layers = {}};
    int64_t first = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const lora::LoraWeights* adapter = low_rank_of(layers[i]);
      const double dropout = training && adapter != nullptr ? adapter->dropout : 0.0;
      product.layers.push_back({.first = first,
                                .n = layers[i]->out(),
                                .frozen = frozen_of(layers[i]) != nullptr,
                                .adapter = adapter,
                                .dropout = make_dropout(dropout, key, first_site + i)});
      first += layers[i]->out();
    }
    return product;
  }
};

/// Returns the adapter's input z = dropout(x), [N, k] of type T.
template <typename T>
Tensor adapter_input(const Columns& layer, const Tensor& x) {
  return layer.dropout.on() ? drop<T>(x.to(kType<Real<T>>), layer.dropout) : x;
}
/// Returns u = s dy B, [N, r] of type T, for this layer's columns of dy [N, sum of n_i].
template <typename T>
Tensor into_rank(const Columns& layer, const Tensor& dy) {
  return dy.narrow(1, layer.first, layer.n).mm(layer.adapter->b.to(kType<T>)).mul_(layer.adapter->scale);
}

/// Returns the output y [N, sum of n_i] of the stacked layers for x [N, k], both of type T.
template <typename T>
Tensor multiply(const StackedWeight& product, const Tensor& x) {
  Tensor y = x.mm(product.weight.t());
  for (const Columns& layer : product.layers) {
    if (layer.adapter == nullptr) continue;
    const Tensor t_Nr = adapter_input<T>(layer, x).mm(layer.adapter->a.to(kType<T>).t());
    y.narrow(1, layer.first, layer.n).addmm_(t_Nr, layer.adapter->b.to(kType<T>).t(), 1.0, layer.adapter->scale);
  }
  return y;
}

/// Returns the input's gradient dx [N, k] for dy [N, sum of n_i], both of type T.
template <typename T>
Tensor input_gradient(const StackedWeight& product, const Tensor& dy) {
  Tensor dx = dy.mm(product.weight);
  for (const Columns& layer : product.layers) {
    if (layer.adapter == nullptr) continue;
    const Tensor u_Nr = into_rank<T>(layer, dy), a = layer.adapter->a.to(kType<T>);
    if (layer.dropout.on()) {
      dx.add_(adapter_input<T>(layer, u_Nr.mm(a)));
    } else {
      dx.addmm_(u_Nr, a);
    }
  }
  return dx;
}

/// Returns the gradients of the layers' parameters, of type Real<T>. For each layer: its weight, unless frozen, then a
/// and b of its adapter, if it has one.
template <typename T>
std::vector<Tensor> parameter_gradients(const StackedWeight& product, const Tensor& dy, const Tensor& x) {
  constexpr torch::ScalarType kReal = kType<Real<T>>;
  std::vector<Tensor> all;
  const Tensor dweight = product.layers.front().frozen ? Tensor() : dy.t().mm(x).to(kReal);
  for (const Columns& layer : product.layers) {
    if (!layer.frozen) all.push_back(dweight.narrow(0, layer.first, layer.n));
    if (layer.adapter == nullptr) continue;
    const Tensor z_Nk = adapter_input<T>(layer, x);
    const Tensor t_Nr = z_Nk.mm(layer.adapter->a.to(kType<T>).t());
    all.push_back(into_rank<T>(layer, dy).t().mm(z_Nk).to(kReal));
    all.push_back(dy.narrow(1, layer.first, layer.n).t().mm(t_Nr).to(kReal).mul_(layer.adapter->scale));
  }
  return all;
}

}  // namespace folio::train::fused
