// Embedding dropout, and one autograd function for the final norm, linear head and cross-entropy. Logits are computed
// for n rows at a time and overwritten by their gradient. The logits of a whole batch are never stored. With logits
// z = y Wᵀ of normalized rows y, and dz from loop_table.cpp: dy = dz W, dW = dzᵀ y. The forward pass computes both,
// and the backward pass scales them by the loss's gradient (Hsu et al., "Liger Kernel", 2024, section 3.2).
// Shapes: B sequences, T positions, N rows, D model width, V vocabulary.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/error.h"
#include "train/fused/linears.h"
#include "train/fused/parts.h"
#include "train/lora/with_backward.h"

namespace folio::train::fused {
namespace {

using variable_list = std::vector<Tensor>;

Tensor dropped(const Tensor& x, const Dropout& dropout) {
  const auto x_ND = x.contiguous().flatten(0, -2);
  return (x.scalar_type() == torch::kDouble ? drop<double>(x_ND, dropout) : drop<float>(x_ND, dropout)).view(x.sizes());
}

// Logits per chunk of rows. Smaller chunks would read a large head's weight from memory more often.
constexpr int64_t kLogitsAtOnce = int64_t{1} << 23;

// Returns the mean loss, and the gradients of x, of the norm's weight and of the head. Gradients are undefined unless
// `gradients` is true, and the head's also unless `by_head` is true.
template <typename T>
std::pair<double, variable_list> compute(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps,
                                         const Tensor& head_VD, const Tensor& targets_N, bool gradients, bool by_head) {
  const int64_t N = x_ND.size(0), V = head_VD.size(0);
  const int64_t at_once = std::clamp<int64_t>(kLogitsAtOnce / V, 1, N);
  const Normed normed = norm<T>(x_ND, norm_weight_D, norm_eps);
  const Tensor dnormed_ND = gradients ? torch::empty_like(normed.y) : Tensor();
  const Tensor dhead_VD = gradients && by_head ? torch::zeros(head_VD.sizes(), kType<Real<T>>) : Tensor();
  const double scale = gradients ? 1.0 / static_cast<double>(N) : 0.0;
  double loss = 0.0;
  for (int64_t first = 0; first < N; first += at_once) {
    const int64_t n = std::min(at_once, N - first);
    const Tensor rows_nD = normed.y.narrow(0, first, n);
    const Tensor logits_nV = rows_nD.mm(head_VD.t());
    loss += cross_entropy<T>(logits_nV, targets_N.narrow(0, first, n), scale);
    if (!gradients) continue;
    Tensor dnormed_nD = dnormed_ND.narrow(0, first, n);
    at::mm_out(dnormed_nD, logits_nV, head_VD);
    if (by_head) dhead_VD.add_(logits_nV.t().mm(rows_nD));
  }
  loss /= static_cast<double>(N);
  if (!gradients) return {loss, variable_list(3)};
  const Tensor nothing_ND = torch::zeros_like(x_ND);  // no residual connection adds to the gradient of x
  auto [dx_ND, dweight_D] = norm_backward<T>(dnormed_ND, x_ND, norm_weight_D, normed.inverse_rms, nothing_ND);
  return {loss, {dx_ND, dweight_D, dhead_VD}};
}

}  // namespace

int64_t random_key() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<int64_t>(at::check_generator<at::CPUGeneratorImpl>(generator)->random64() >> 2U);
}

Tensor dropout(const Tensor& x, double probability) {
  const Dropout dropout = make_dropout(probability, static_cast<uint64_t>(random_key()), 0);
  return with_backward(
      {x}, [&] { return dropped(x, dropout); },
      [dropout](const Tensor& dy) { return variable_list{dropped(dy, dropout)}; });
}

Tensor linear_cross_entropy(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps, const Tensor& head_VD,
                            const Tensor& targets_N, Operand& operand) {
  const int64_t V = head_VD.size(0), low = targets_N.min().item<int64_t>(), high = targets_N.max().item<int64_t>();
  core::require(low >= 0 && high < V, "Llama: targets range from {} to {}, expected values in [0, {})", low, high, V);
  const bool gradients = torch::GradMode::is_enabled() &&
                         (x_ND.requires_grad() || norm_weight_D.requires_grad() || head_VD.requires_grad());
  const Tensor operand_VD = operand.get({head_VD}, product_type(x_ND));
  const auto all = std::make_shared<variable_list>();
  return with_backward(
      {x_ND, norm_weight_D, head_VD},
      [&] {
        double loss = 0.0;
        std::tie(loss, *all) = with_type(operand_VD.scalar_type(), [&]<typename T>() {
          return compute<T>(x_ND.detach().contiguous(), norm_weight_D.detach(), norm_eps, operand_VD,
                            targets_N.contiguous(), gradients, head_VD.requires_grad());
        });
        return torch::full({}, loss, x_ND.scalar_type());
      },
      [all](const Tensor& dloss) {
        const double factor = dloss.item<double>();
        for (Tensor& d : *all) {
          if (factor != 1.0 && d.defined()) d = d * factor;
        }
        return *all;
      });
}

Tensor FusedParts::embed(const core::ModelConfig& config, nn::Embedding embedding, const Tensor& tokens) const {
  const bool drops = embedding->is_training() && options().dropout > 0.0;
  if (!fusion_.ends || !drops) return nn::FamilyParts::embed(config, std::move(embedding), tokens);
  auto x = embedding->forward(tokens);
  if (config.embedding_scale != 1.0F) x = x * config.embedding_scale;
  return dropout(x, options().dropout);
}

Tensor FusedParts::loss(const core::ModelConfig& config, const Tensor& x_BTD, nn::RMSNorm norm, nn::Linear head,
                        const Tensor& targets_BT) const {
  const bool plain_logits = config.logit_scale == 1.0F && config.logit_cap == 0.0F;
  if (!fusion_.ends || !plain_logits) {
    return nn::FamilyParts::loss(config, x_BTD, std::move(norm), std::move(head), targets_BT);
  }
  auto x_ND = x_BTD.flatten(0, 1);
  auto targets_N = targets_BT.flatten();
  const auto counts_N = targets_N != kIgnored;
  if (!counts_N.all().item<bool>()) {  // skip rows whose target is ignored
    const auto rows = counts_N.nonzero().flatten();
    x_ND = x_ND.index_select(0, rows);
    targets_N = targets_N.index_select(0, rows);
  }
  const lora::FrozenMatrix* frozen = frozen_of(head);
  const Tensor head_VD = frozen != nullptr ? frozen->to(product_type(x_ND)) : head->weight;
  return linear_cross_entropy(x_ND, norm->weight, norm->eps(), head_VD, targets_N, head_);
}

}  // namespace folio::train::fused
