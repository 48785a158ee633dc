// The experts of a mixture as one autograd function with a hand-written backward pass. Each pair of a row and one of
// its experts is a slot. ExpertSlots are sorted by expert, so that each expert computes all its rows in one product.
// With X the rows of an expert's slots, g their weights, and y_n the sum of row n's slots:
//   G = X W1ᵀ,  U = X W3ᵀ,  H = g silu(G) ⊙ U,  Y = H W2ᵀ,  y_n = Σ Y_s.
// Backward, with dY_s = dy_n and dH = dY W2:
//   dW2 = dYᵀ H,  dg = Σ dH ⊙ silu(G) ⊙ U,  dG and dU from g dH as in loop_table.cpp,
//   dW1 = dGᵀ X,  dW3 = dUᵀ X,  dX = dG W1 + dU W3,  dx_n = Σ dX_s.
// Shapes: N rows, K experts per row, S = N K slots, D model width, E experts, F hidden width of an expert.
#include <array>
#include <memory>
#include <vector>

#include "train/fused/operations.h"
#include "train/fused/parts.h"
#include "train/lora/with_backward.h"

namespace folio::train::fused {
namespace {

struct ExpertSlots {
  Tensor row_S;                // int64: the row of each slot
  Tensor of_row_NK;            // int64: the slots of each row
  std::vector<int64_t> begin;  // [E + 1]: first slot of each expert, then the number of slots
};

// Sorts slots by expert, and each expert's slots by row.
ExpertSlots sorted_by_expert(const Tensor& experts_NK, int64_t n_experts) {
  const Tensor expert_S = experts_NK.flatten(), end_E = expert_S.bincount({}, n_experts).cumsum(0);
  ExpertSlots slots{.row_S = torch::empty_like(expert_S), .of_row_NK = torch::empty_like(experts_NK), .begin = {0}};
  slots.begin.insert(slots.begin.end(), data<int64_t>(end_E), data<int64_t>(end_E) + n_experts);
  std::vector<int64_t> next = slots.begin;
  for (int64_t i = 0; i < expert_S.size(0); ++i) {
    const int64_t slot = next[static_cast<size_t>(data<int64_t>(expert_S)[i])]++;
    data<int64_t>(slots.row_S)[slot] = i / experts_NK.size(1);
    data<int64_t>(slots.of_row_NK)[i] = slot;
  }
  return slots;
}

// Calls body(expert, first, n) in parallel for each expert with slots. One thread computes all products of an expert,
// so results do not depend on the number of threads, and small products are not split.
template <typename Body>
void for_experts(const ExpertSlots& slots, Body&& body) {
  RECORD_FUNCTION("folio::experts", {});
  at::parallel_for(0, static_cast<int64_t>(slots.begin.size()) - 1, 1, [&](int64_t from, int64_t to) {
    for (int64_t e = from; e < to; ++e) {
      const int64_t first = slots.begin[static_cast<size_t>(e)], n = slots.begin[static_cast<size_t>(e) + 1] - first;
      if (n > 0) body(e, first, n);
    }
  });
}

template <typename T>
Tensor sums_of_rows(const Tensor& x_SD, const Tensor& of_row_NK) {
  RECORD_FUNCTION("folio::sum_rows", {});
  return new_rows<Real<T>>(of_row_NK.size(0), x_SD.size(1), [&](size_t first, size_t n, Real<T>* y) {
    loops<T>().sum_rows(data<T>(x_SD), data<int64_t>(of_row_NK, first), n, columns(of_row_NK), columns(x_SD), y);
  });
}

struct Stacks {
  Tensor w1_EFD, w3_EFD, w2_EDF;
};

// Activations that the forward pass saves for the backward pass.
struct ExpertActivations {
  Tensor x_SD, gate_SF, up_SF, weights_S;
};

template <typename T>
Tensor experts_forward(const Stacks& w, const ExpertSlots& slots, const Tensor& x_ND, const Tensor& weights_NK,
                       ExpertActivations& a) {
  using R = Real<T>;
  const int64_t S = slots.row_S.size(0);
  a.x_SD = x_ND.to(kType<T>).index_select(0, slots.row_S);
  a.weights_S = torch::empty({S}, kType<R>);
  a.weights_S.scatter_(0, slots.of_row_NK.flatten(), weights_NK.detach().to(kType<R>).flatten());
  a.gate_SF = torch::empty({S, w.w1_EFD.size(1)}, kType<T>);
  a.up_SF = torch::empty_like(a.gate_SF);
  const Tensor hidden_SF = torch::empty_like(a.gate_SF), y_SD = torch::empty_like(a.x_SD);
  for_experts(slots, [&](int64_t e, int64_t first, int64_t n) {
    const auto of = [&](const Tensor& t) { return t.narrow(0, first, n); };
    Tensor gate = of(a.gate_SF), up = of(a.up_SF), hidden = of(hidden_SF), y = of(y_SD);
    at::mm_out(gate, of(a.x_SD), w.w1_EFD[e].t());
    at::mm_out(up, of(a.x_SD), w.w3_EFD[e].t());
    loops<T>().swiglu(data<T>(gate), data<T>(up), columns(gate), data<R>(of(a.weights_S)), static_cast<size_t>(n),
                      columns(gate), data<T>(hidden));
    at::mm_out(y, hidden, w.w2_EDF[e].t());
  });
  return sums_of_rows<T>(y_SD, slots.of_row_NK);
}

// Returns the gradients of x, of the routing weights and of the stacked matrices, of type R.
template <typename T>
std::vector<Tensor> experts_backward(const Stacks& w, const ExpertSlots& slots, const ExpertActivations& a,
                                     const Tensor& dy_ND) {
  using R = Real<T>;
  const auto zeros = [](const Tensor& like) { return torch::zeros_like(like, kType<T>); };
  const Stacks d{.w1_EFD = zeros(w.w1_EFD), .w3_EFD = zeros(w.w3_EFD), .w2_EDF = zeros(w.w2_EDF)};
  const Tensor dy_SD = dy_ND.to(kType<T>).index_select(0, slots.row_S);
  const Tensor dgate_SF = torch::empty_like(a.gate_SF), dup_SF = torch::empty_like(a.up_SF);
  const Tensor dhidden_SF = torch::empty_like(a.gate_SF), hidden_SF = torch::empty_like(a.gate_SF);
  const Tensor dx_SD = torch::empty_like(a.x_SD), dweights_S = torch::empty_like(a.weights_S);
  for_experts(slots, [&](int64_t e, int64_t first, int64_t n) {
    const auto of = [&](const Tensor& t) { return t.narrow(0, first, n); };
    Tensor dhidden = of(dhidden_SF), dgate = of(dgate_SF), dup = of(dup_SF), hidden = of(hidden_SF), dx = of(dx_SD);
    Tensor dw1 = d.w1_EFD[e], dw3 = d.w3_EFD[e], dw2 = d.w2_EDF[e];
    at::mm_out(dhidden, of(dy_SD), w.w2_EDF[e]);
    loops<T>().swiglu_backward(data<T>(dhidden), data<T>(of(a.gate_SF)), data<T>(of(a.up_SF)), columns(hidden),
                               data<R>(of(a.weights_S)), static_cast<size_t>(n), columns(hidden), data<T>(dgate),
                               data<T>(dup), data<T>(hidden), data<R>(of(dweights_S)));
    at::mm_out(dw2, of(dy_SD).t(), hidden);
    at::mm_out(dw1, dgate.t(), of(a.x_SD));
    at::mm_out(dw3, dup.t(), of(a.x_SD));
    at::mm_out(dx, dgate, w.w1_EFD[e]);
    dx.addmm_(dup, w.w3_EFD[e]);
  });
  const Tensor dweights_NK = dweights_S.index_select(0, slots.of_row_NK.flatten()).view_as(slots.of_row_NK);
  return {sums_of_rows<T>(dx_SD, slots.of_row_NK), dweights_NK, d.w1_EFD.to(kType<R>), d.w3_EFD.to(kType<R>),
          d.w2_EDF.to(kType<R>)};
}

}  // namespace

nn::ExpertProducts expert_products(const core::ModelConfig& config) {
  const core::FamilyInfo& family = core::info(config.family);
  if (family.gate != core::Gate::Silu || family.mixture.biases) return {};
  // Caches the stacked weights, converted to the type of the products, until the weights change.
  return [operands = std::make_shared<std::array<Operand, 3>>()](const Tensor& x_ND, const Tensor& chosen_NK,
                                                                 const Tensor& weights_NK, const Tensor& w1,
                                                                 const Tensor& w3, const Tensor& w2) {
    if (!x_ND.is_cpu()) return Tensor();
    const torch::ScalarType type = product_type(x_ND);
    const auto operand = [&](size_t i, const Tensor& stack) {
      return (*operands)[i].get({stack.flatten(0, 1)}, type).view(stack.sizes());
    };
    const Stacks w{.w1_EFD = operand(0, w1), .w3_EFD = operand(1, w3), .w2_EDF = operand(2, w2)};
    const ExpertSlots slots = sorted_by_expert(chosen_NK.contiguous(), w1.size(0));
    const auto a = std::make_shared<ExpertActivations>();
    return with_backward(
        {x_ND, weights_NK, w1, w3, w2},
        [&] {
          return with_type(type,
                           [&]<typename T>() { return experts_forward<T>(w, slots, x_ND.detach(), weights_NK, *a); });
        },
        [w, slots, a](const Tensor& dy_ND) {
          return with_type(a->x_SD.scalar_type(),
                           [&]<typename T>() { return experts_backward<T>(w, slots, *a, dy_ND); });
        });
  };
}

nn::ExpertProducts FusedParts::expert_products(const core::ModelConfig& config) const {
  return options().written_out ? nn::ExpertProducts() : fused::expert_products(config);
}

}  // namespace folio::train::fused
