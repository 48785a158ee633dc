// Shapes: N rows, K experts of each, S = N K slots, D model width, E experts, F an expert's width.
#include "train/fused/experts.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <vector>

#include "train/fused/operand.h"
#include "train/fused/operations.h"

namespace folio::train::fused {
namespace {

#ifndef INTRA_OP_PARALLEL
#error at::parallel_for would run on one thread: this file has to be compiled with OpenMP
#endif

using torch::Tensor;
using torch::autograd::AutogradContext;

struct Slots {
  Tensor row_S;              // int64: whose it is
  Tensor of_row_NK;          // int64: where each row's are
  std::vector<int64_t> end;  // of each expert's slots, which begin where those of the expert before end
};

// Within an expert in the order of the rows.
Slots sorted_by_expert(const Tensor& experts_NK, int64_t n_experts) {
  const int64_t N = experts_NK.size(0), K = experts_NK.size(1);
  Slots slots{.row_S = torch::empty({N * K}, torch::kLong),
              .of_row_NK = torch::empty({N, K}, torch::kLong),
              .end = std::vector<int64_t>(static_cast<size_t>(n_experts))};
  const int64_t* expert = experts_NK.data_ptr<int64_t>();
  std::vector<int64_t> next(static_cast<size_t>(n_experts));
  for (int64_t i = 0; i < N * K; ++i) ++slots.end[static_cast<size_t>(expert[i])];
  for (size_t e = 1; e < slots.end.size(); ++e) {
    next[e] = slots.end[e - 1];
    slots.end[e] += slots.end[e - 1];
  }
  int64_t* row = slots.row_S.data_ptr<int64_t>();
  int64_t* of_row = slots.of_row_NK.data_ptr<int64_t>();
  for (int64_t i = 0; i < N * K; ++i) {
    const int64_t slot = next[static_cast<size_t>(expert[i])]++;
    row[slot] = i / K;
    of_row[i] = slot;
  }
  return slots;
}

// Calls body(expert, first, n) for each expert that has slots. An expert's products are one thread's: so their bits
// depend on no number of threads, and a small product is not cut further.
template <typename Body>
void for_experts(const std::vector<int64_t>& end, Body&& body) {
  RECORD_FUNCTION("folio::experts", {});
  at::parallel_for(0, static_cast<int64_t>(end.size()), 1, [&](int64_t from, int64_t to) {
    for (int64_t e = from; e < to; ++e) {
      const int64_t first = e == 0 ? 0 : end[static_cast<size_t>(e) - 1], n = end[static_cast<size_t>(e)] - first;
      if (n > 0) body(e, first, n);
    }
  });
}

// The weights of the slots, of R.
template <typename T>
Tensor weights_of_slots(const Tensor& weights_NK, const Slots& slots) {
  Tensor weights_S = torch::empty({weights_NK.numel()}, kType<Real<T>>);
  return weights_S.scatter_(0, slots.of_row_NK.flatten(), weights_NK.detach().to(kType<Real<T>>).flatten());
}

template <typename T>
Tensor sums_of_rows(const Tensor& x_SD, const Tensor& of_row_NK) {
  RECORD_FUNCTION("folio::sum_rows", {});
  const auto D = static_cast<size_t>(x_SD.size(1)), K = static_cast<size_t>(of_row_NK.size(1));
  Tensor y_ND = torch::empty({of_row_NK.size(0), x_SD.size(1)}, kType<Real<T>>);
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, of_row_NK.size(0), kAtLeast, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    loops<T>().sum_rows(data<T>(x_SD), data<int64_t>(of_row_NK) + first * K, static_cast<size_t>(end - begin), K, D,
                        data<Real<T>>(y_ND) + first * D);
  });
  return y_ND;
}

struct Stacks {
  Tensor w1_EFD, w3_EFD, w2_EDF;
};

struct ExpertActivations {
  Tensor x_SD, gate_SF, up_SF, weights_S;
};

template <typename T>
Tensor experts_forward(const Stacks& w, const Slots& slots, const Tensor& x_ND, const Tensor& weights_NK,
                       ExpertActivations& a) {
  using R = Real<T>;
  const int64_t S = slots.row_S.size(0), D = x_ND.size(1), F = w.w1_EFD.size(1);
  a.x_SD = x_ND.to(kType<T>).index_select(0, slots.row_S);
  a.weights_S = weights_of_slots<T>(weights_NK, slots);
  a.gate_SF = torch::empty({S, F}, kType<T>);
  a.up_SF = torch::empty({S, F}, kType<T>);
  const Tensor hidden_SF = torch::empty({S, F}, kType<T>), y_SD = torch::empty({S, D}, kType<T>);
  for_experts(slots.end, [&](int64_t e, int64_t first, int64_t n) {
    const auto of = [&](const Tensor& t) { return t.narrow(0, first, n); };
    Tensor gate = of(a.gate_SF), up = of(a.up_SF), hidden = of(hidden_SF), y = of(y_SD);
    at::mm_out(gate, of(a.x_SD), w.w1_EFD[e].t());
    at::mm_out(up, of(a.x_SD), w.w3_EFD[e].t());
    loops<T>().expert_hidden(data<T>(gate), data<T>(up), data<R>(a.weights_S) + first, static_cast<size_t>(n),
                             static_cast<size_t>(F), data<T>(hidden));
    at::mm_out(y, hidden, w.w2_EDF[e].t());
  });
  return sums_of_rows<T>(y_SD, slots.of_row_NK);
}

struct ExpertGradients {
  Tensor x, weights;
  Stacks w;  // of R
};

template <typename T>
ExpertGradients experts_backward(const Stacks& w, const Slots& slots, const ExpertActivations& a, const Tensor& dy_ND) {
  using R = Real<T>;
  const int64_t F = w.w1_EFD.size(1);
  const auto zeros = [](const Tensor& like) { return torch::zeros_like(like, kType<T>); };
  Stacks d{.w1_EFD = zeros(w.w1_EFD), .w3_EFD = zeros(w.w3_EFD), .w2_EDF = zeros(w.w2_EDF)};
  const Tensor dy_SD = dy_ND.to(kType<T>).index_select(0, slots.row_S);
  const Tensor dgate_SF = torch::empty_like(a.gate_SF), dup_SF = torch::empty_like(a.up_SF);
  const Tensor dhidden_SF = torch::empty_like(a.gate_SF), hidden_SF = torch::empty_like(a.gate_SF);
  const Tensor dx_SD = torch::empty_like(a.x_SD), dweights_S = torch::empty_like(a.weights_S);
  for_experts(slots.end, [&](int64_t e, int64_t first, int64_t n) {
    const auto of = [&](const Tensor& t) { return t.narrow(0, first, n); };
    Tensor dhidden = of(dhidden_SF), dgate = of(dgate_SF), dup = of(dup_SF), hidden = of(hidden_SF), dx = of(dx_SD);
    Tensor dw1 = d.w1_EFD[e], dw3 = d.w3_EFD[e], dw2 = d.w2_EDF[e];
    at::mm_out(dhidden, of(dy_SD), w.w2_EDF[e]);
    loops<T>().expert_hidden_backward(data<T>(dhidden), data<T>(of(a.gate_SF)), data<T>(of(a.up_SF)),
                                      data<R>(a.weights_S) + first, static_cast<size_t>(n), static_cast<size_t>(F),
                                      data<T>(dgate), data<T>(dup), data<T>(hidden), data<R>(dweights_S) + first);
    at::mm_out(dw2, of(dy_SD).t(), hidden);
    at::mm_out(dw1, dgate.t(), of(a.x_SD));
    at::mm_out(dw3, dup.t(), of(a.x_SD));
    at::mm_out(dx, dgate, w.w1_EFD[e]);
    dx.addmm_(dup, w.w3_EFD[e]);
  });
  const auto real = [](const Tensor& t) { return t.to(kType<R>); };
  return {.x = sums_of_rows<T>(dx_SD, slots.of_row_NK),
          .weights = dweights_S.index_select(0, slots.of_row_NK.flatten()).view_as(slots.of_row_NK),
          .w = {.w1_EFD = real(d.w1_EFD), .w3_EFD = real(d.w3_EFD), .w2_EDF = real(d.w2_EDF)}};
}

// A stack in the type of the products, [E, n, m].
Tensor operand_of(Operand& operand, const Tensor& stack, torch::ScalarType type) {
  return operand.get({stack.flatten(0, 1)}, type).view(stack.sizes());
}

struct ExpertsFunction : torch::autograd::Function<ExpertsFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x_ND, const Tensor& weights_NK, const Tensor& /*w1*/,
                        const Tensor& /*w3*/, const Tensor& /*w2*/, const Tensor& experts_NK, const Stacks& w,
                        torch::ScalarType type) {
    const Slots slots = sorted_by_expert(experts_NK.contiguous(), w.w1_EFD.size(0));
    ExpertActivations a;
    const Tensor y_ND =
        with_type(type, [&]<typename T>() { return experts_forward<T>(w, slots, x_ND.detach(), weights_NK, a); });
    context->save_for_backward(
        {w.w1_EFD, w.w3_EFD, w.w2_EDF, a.x_SD, a.gate_SF, a.up_SF, a.weights_S, slots.row_S, slots.of_row_NK});
    context->saved_data["end"] = slots.end;
    return y_ND;
  }

  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    const auto saved = context->get_saved_variables();
    const Stacks w{.w1_EFD = saved[0], .w3_EFD = saved[1], .w2_EDF = saved[2]};
    const ExpertActivations a{.x_SD = saved[3], .gate_SF = saved[4], .up_SF = saved[5], .weights_S = saved[6]};
    const Slots slots{.row_S = saved[7], .of_row_NK = saved[8], .end = context->saved_data["end"].toIntVector()};
    const ExpertGradients d =
        with_type(a.x_SD.scalar_type(), [&]<typename T>() { return experts_backward<T>(w, slots, a, douts[0]); });
    return {d.x, d.weights, d.w.w1_EFD, d.w.w3_EFD, d.w.w2_EDF, {}, {}, {}};
  }
};

// The stacks in the type of the products, made once for each value of the weights.
struct ExpertOperands {
  Operand w1, w3, w2;
};

}  // namespace

nn::ExpertProducts expert_products(const core::ModelConfig& config) {
  const core::FamilyInfo& family = core::info(config.family);
  if (family.gate != core::Gate::Silu || family.mixture.biases) return {};
  return [operands = std::make_shared<ExpertOperands>()](const Tensor& x_ND, const Tensor& chosen_NK,
                                                         const Tensor& weights_NK, const Tensor& w1, const Tensor& w3,
                                                         const Tensor& w2) {
    if (!x_ND.is_cpu()) return Tensor();
    const torch::ScalarType type = product_type(x_ND);
    const Stacks w{.w1_EFD = operand_of(operands->w1, w1, type),
                   .w3_EFD = operand_of(operands->w3, w3, type),
                   .w2_EDF = operand_of(operands->w2, w2, type)};
    return Tensor(ExpertsFunction::apply(x_ND, weights_NK, w1, w3, w2, chosen_NK, w, type));
  };
}

}  // namespace folio::train::fused
