// Shapes: N rows, n of them at a time, D model width, V vocabulary.
#include "train/fused/head.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/error.h"
#include "train/fused/operations.h"

namespace folio::train::fused {
namespace {

using torch::Tensor;

// Numbers. With fewer rows at a time a large head would be read from memory too often.
constexpr int64_t kLogitsAtOnce = int64_t{1} << 23;

struct LossAndGradients {
  double loss = 0.0;
  Tensor dx, dnorm_weight, dhead;
};

template <typename T>
LossAndGradients compute(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps, const Tensor& head_VD,
                         const Tensor& targets_N, bool gradients, bool by_head) {
  using R = Real<T>;
  const int64_t N = x_ND.size(0), V = head_VD.size(0);
  const int64_t at_once = std::clamp<int64_t>(kLogitsAtOnce / V, 1, N);
  LossAndGradients result;
  const Normed normed = norm<T>(x_ND, norm_weight_D, norm_eps);
  Tensor dnormed_ND;
  if (gradients) {
    dnormed_ND = torch::empty_like(normed.y);
    if (by_head) result.dhead = torch::zeros({V, head_VD.size(1)}, kType<R>);
  }
  const double scale = gradients ? 1.0 / static_cast<double>(N) : 0.0;
  for (int64_t first = 0; first < N; first += at_once) {
    const int64_t n = std::min(at_once, N - first);
    const Tensor rows_nD = normed.y.narrow(0, first, n);
    const Tensor logits_nV = rows_nD.mm(head_VD.t());
    result.loss += cross_entropy<T>(logits_nV, targets_N.narrow(0, first, n), scale);
    if (!gradients) continue;
    auto dnormed_nD = dnormed_ND.narrow(0, first, n);
    at::mm_out(dnormed_nD, logits_nV, head_VD);
    if (by_head) result.dhead.add_(logits_nV.t().mm(rows_nD));
  }
  result.loss /= static_cast<double>(N);
  if (gradients) {
    const auto nothing_ND = torch::zeros_like(x_ND);  // the stream ends here
    const NormGradients d = norm_backward<T>(dnormed_ND, x_ND, norm_weight_D, normed.inverse_rms, nothing_ND);
    result.dx = d.dx;
    result.dnorm_weight = d.dweight;
  }
  return result;
}

struct HeadFunction : torch::autograd::Function<HeadFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x_ND, const Tensor& norm_weight_D,
                        const Tensor& head_VD, double norm_eps, const Tensor& operand_VD, const Tensor& targets_N,
                        bool gradients) {
    const LossAndGradients result = with_type(operand_VD.scalar_type(), [&]<typename T>() {
      return compute<T>(x_ND.contiguous(), norm_weight_D, norm_eps, operand_VD, targets_N, gradients,
                        head_VD.requires_grad());
    });
    context->save_for_backward({result.dx, result.dnorm_weight, result.dhead});
    return torch::full({}, result.loss, x_ND.scalar_type());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    const auto saved = context->get_saved_variables();
    const double dloss = douts[0].item<double>();
    const auto times = [&](const Tensor& d) { return dloss == 1.0 || !d.defined() ? d : d * dloss; };
    return {times(saved[0]), times(saved[1]), times(saved[2]), {}, {}, {}, {}};
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps, const Tensor& head_VD,
                            const Tensor& targets_N, Operand& operand) {
  const int64_t V = head_VD.size(0);
  const auto [low, high] = targets_N.aminmax();
  core::require(low.item<int64_t>() >= 0 && high.item<int64_t>() < V,
                "Llama: targets have to be in [0, {}), but go from {} to {}", V, low.item<int64_t>(),
                high.item<int64_t>());
  const bool gradients = torch::GradMode::is_enabled() &&
                         (x_ND.requires_grad() || norm_weight_D.requires_grad() || head_VD.requires_grad());
  return HeadFunction::apply(x_ND, norm_weight_D, head_VD, norm_eps, operand.get({head_VD}, product_type(x_ND)),
                             targets_N.contiguous(), gradients);
}

}  // namespace folio::train::fused
