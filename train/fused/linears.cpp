// Shapes: N rows, k inputs, n outputs, r the rank.
#include "train/fused/linears.h"

#include <algorithm>

#include "train/fused/operations.h"

namespace folio::train::fused {
namespace {

using torch::Tensor;

// drop() of numbers that are of T already.
template <typename T>
Tensor dropped(const Tensor& x, const Dropout& dropout) {
  return dropout.on() ? drop<T>(x.to(kType<Real<T>>), dropout) : x;
}

// s dy B, [N, r] of T
template <typename T>
Tensor into_rank(const LowRankPart& part, const Tensor& dy) {
  return dy.narrow(1, part.first, part.n).mm(part.b.to(kType<T>)).mul_(part.scale);
}

}  // namespace

const lora::FrozenMatrix* frozen_of(const nn::Linear& layer) {
  const auto* lora = layer->as<lora::LoraLinearImpl>();
  return lora == nullptr ? nullptr : lora->frozen().get();
}

const lora::LowRank* low_rank_of(const nn::Linear& layer) {
  const auto* lora = layer->as<lora::LoraLinearImpl>();
  return lora == nullptr || !lora->low_rank().a.defined() ? nullptr : &lora->low_rank();
}

Product StackedLinears::product(torch::ScalarType type, bool training, uint64_t key) {
  Product product;
  int64_t n_all = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t n = layers_[i]->out();
    if (const auto* low_rank = low_rank_of(layers_[i])) {
      product.low_rank.push_back({.layer = i,
                                  .first = n_all,
                                  .n = n,
                                  .a = low_rank->a.detach(),
                                  .b = low_rank->b.detach(),
                                  .scale = low_rank->scale,
                                  .dropout = make_dropout(training ? low_rank->dropout : 0.0, key, first_site_ + i)});
    }
    n_all += n;
  }
  if (!frozen()) {
    std::vector<Tensor> weights;
    for (const nn::Linear& layer : layers_) weights.push_back(layer->weight);
    product.weight = operand_.get(weights, type);
  } else if (layers_.size() == 1) {
    product.weight = frozen_of(layers_.front())->to(type);
  } else {
    product.weight = torch::empty({n_all, layers_.front()->in()}, type);
    int64_t row = 0;
    for (const nn::Linear& layer : layers_) {
      frozen_of(layer)->write(product.weight.narrow(0, row, layer->out()));
      row += layer->out();
    }
  }
  return product;
}

template <typename T>
Tensor multiply(const Product& product, const Tensor& x) {
  Tensor y = x.mm(product.weight.t());
  for (const LowRankPart& part : product.low_rank) {
    const Tensor t_Nr = dropped<T>(x, part.dropout).mm(part.a.to(kType<T>).t());
    y.narrow(1, part.first, part.n).addmm_(t_Nr, part.b.to(kType<T>).t(), 1.0, part.scale);
  }
  return y;
}

template <typename T>
Tensor input_gradient(const Product& product, const Tensor& dy) {
  Tensor dx = dy.mm(product.weight);
  for (const LowRankPart& part : product.low_rank) {
    const Tensor u_Nr = into_rank<T>(part, dy);
    if (part.dropout.on()) {
      dx.add_(dropped<T>(u_Nr.mm(part.a.to(kType<T>)), part.dropout));
    } else {
      dx.addmm_(u_Nr, part.a.to(kType<T>));
    }
  }
  return dx;
}

template <typename T>
std::vector<LowRankGradients> low_rank_gradients(const Product& product, const Tensor& dy, const Tensor& x) {
  std::vector<LowRankGradients> gradients;
  for (const LowRankPart& part : product.low_rank) {
    const Tensor z_Nk = dropped<T>(x, part.dropout);
    const Tensor t_Nr = z_Nk.mm(part.a.to(kType<T>).t());
    const Tensor db_nr = dy.narrow(1, part.first, part.n).t().mm(t_Nr).to(kType<Real<T>>).mul_(part.scale);
    gradients.push_back({.a = into_rank<T>(part, dy).t().mm(z_Nk).to(kType<Real<T>>), .b = db_nr});
  }
  return gradients;
}

#define FOLIO_INSTANTIATE(T)                                        \
  template Tensor multiply<T>(const Product&, const Tensor&);       \
  template Tensor input_gradient<T>(const Product&, const Tensor&); \
  template std::vector<LowRankGradients> low_rank_gradients<T>(const Product&, const Tensor&, const Tensor&);
FOLIO_INSTANTIATE(BFloat16)
FOLIO_INSTANTIATE(float)
FOLIO_INSTANTIATE(double)
#undef FOLIO_INSTANTIATE

}  // namespace folio::train::fused
