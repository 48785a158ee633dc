// Suffixes of tensor names are dimensions: B sequences, T positions, D model width, H heads, G key/value heads, K
// elements in a head, P = K / 2 pairs, F hidden width, N rows, V vocabulary.
#include "experiments/11_gradients/by_hand.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>

#include "core/error.h"
#include "train/verify/observe.h"

namespace folio::experiments::by_hand {
namespace {

torch::Tensor rows(const torch::Tensor& x) { return x.flatten(0, -2); }

// Returns silu′(z) = σ(z) (1 + z (1 - σ(z))). With Mistake::SwiGlu, returns σ(z).
torch::Tensor silu_derivative(const torch::Tensor& z, Mistake mistake) {
  const torch::Tensor sigma = z.sigmoid();
  return mistake == Mistake::SwiGlu ? sigma : sigma * (1 + z * (1 - sigma));
}

// Sums the gradients of the H / G query heads that share a key/value head.
torch::Tensor sum_of_queries(const torch::Tensor& d_BHTK, int64_t n_kv_heads) {
  return d_BHTK.unflatten(1, {n_kv_heads, -1}).sum(2);
}

}  // namespace

Gradients linear_backward(const torch::Tensor& x, const torch::Tensor& weight_OI, const torch::Tensor& dy) {
  return {.x = dy.matmul(weight_OI), .weight = rows(dy).t().matmul(rows(x))};
}

Gradients rms_norm_backward(const torch::Tensor& x, const torch::Tensor& weight_D, double eps, const torch::Tensor& dy,
                            Mistake mistake) {
  const torch::Tensor r = torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);  // 1 / rms of each row
  const torch::Tensor normed = x * r;
  const torch::Tensor g = dy * weight_D;
  const torch::Tensor mean_term = normed * (g * normed).mean(-1, /*keepdim=*/true);
  return {.x = mistake == Mistake::RmsNorm ? r * g : r * (g - mean_term), .weight = rows(dy * normed).sum(0)};
}

torch::Tensor rope_backward(const torch::Tensor& rotations_TP, const torch::Tensor& dy_BTHK, Mistake mistake) {
  const torch::Tensor rotations_T1P = rotations_TP.slice(0, 0, dy_BTHK.size(1)).unsqueeze(1);
  const torch::Tensor cos_T1P = at::real(rotations_T1P).to(dy_BTHK.scalar_type());
  torch::Tensor sin_T1P = at::imag(rotations_T1P).to(dy_BTHK.scalar_type());
  if (mistake == Mistake::Rope) sin_T1P = -sin_T1P;
  const torch::Tensor even_BTHP = dy_BTHK.slice(-1, 0, dy_BTHK.size(-1), 2);
  const torch::Tensor odd_BTHP = dy_BTHK.slice(-1, 1, dy_BTHK.size(-1), 2);
  // Forward: (c a - s b, s a + c b). Backward: the transpose, a rotation by the negative angle.
  return torch::stack({cos_T1P * even_BTHP + sin_T1P * odd_BTHP, cos_T1P * odd_BTHP - sin_T1P * even_BTHP}, -1)
      .flatten(-2);
}

torch::Tensor softmax_backward(const torch::Tensor& p, const torch::Tensor& dp, Mistake mistake) {
  if (mistake == Mistake::Softmax) return p * dp;
  return p * (dp - (p * dp).sum(-1, /*keepdim=*/true));
}

AttentionGradients attention_backward(nn::AttentionImpl& attention, const torch::Tensor& x_BTD,
                                      const torch::Tensor& dy_BTD, Mistake mistake) {
  const auto weight = attention.named_parameters();
  const torch::Tensor& rotations_TP = attention.named_children()["rope"]->as<nn::RopeCacheImpl>()->rotations();
  // Recompute the forward pass, whose intermediate results aren't stored.
  const auto [q_BHTK, k_BGTK, v_BGTK] = attention.project(x_BTD);
  const torch::Tensor p_BHTT = attention.weights(x_BTD);
  const int64_t H = q_BHTK.size(1), G = k_BGTK.size(1);
  const torch::Tensor k_BHTK = k_BGTK.repeat_interleave(H / G, 1), v_BHTK = v_BGTK.repeat_interleave(H / G, 1);
  const torch::Tensor mixed_BTD = p_BHTT.matmul(v_BHTK).transpose(1, 2).flatten(2);

  const auto [d_mixed_BTD, d_wo] = linear_backward(mixed_BTD, weight["wo.weight"], dy_BTD);
  const torch::Tensor d_heads_BHTK = d_mixed_BTD.unflatten(-1, {H, -1}).transpose(1, 2);
  const torch::Tensor dv_BGTK = sum_of_queries(p_BHTT.transpose(-2, -1).matmul(d_heads_BHTK), G);
  const torch::Tensor dp_BHTT = d_heads_BHTK.matmul(v_BHTK.transpose(-2, -1));
  const torch::Tensor ds_BHTT = softmax_backward(p_BHTT, dp_BHTT, mistake) / std::sqrt(q_BHTK.size(-1));
  const torch::Tensor dq_BHTK = ds_BHTT.matmul(k_BHTK);
  const torch::Tensor dk_BGTK = sum_of_queries(ds_BHTT.transpose(-2, -1).matmul(q_BHTK), G);

  const auto unrotated = [&](const torch::Tensor& d) {
    return rope_backward(rotations_TP, d.transpose(1, 2), mistake).flatten(2);
  };
  const auto [dx_q, d_wq] = linear_backward(x_BTD, weight["wq.weight"], unrotated(dq_BHTK));
  const auto [dx_k, d_wk] = linear_backward(x_BTD, weight["wk.weight"], unrotated(dk_BGTK));
  const auto [dx_v, d_wv] = linear_backward(x_BTD, weight["wv.weight"], dv_BGTK.transpose(1, 2).flatten(2));
  return {.x = dx_q + dx_k + dx_v, .wq = d_wq, .wk = d_wk, .wv = d_wv, .wo = d_wo};
}

SwiGluGradients swiglu_backward(const torch::Tensor& x, const torch::Tensor& w1_FD, const torch::Tensor& w2_DF,
                                const torch::Tensor& w3_FD, const torch::Tensor& dy, Mistake mistake) {
  const torch::Tensor z = torch::linear(x, w1_FD);
  const torch::Tensor gate = torch::silu(z);
  const torch::Tensor up = torch::linear(x, w3_FD);
  const auto [d_product, d_w2] = linear_backward(gate * up, w2_DF, dy);
  const auto [dx_up, d_w3] = linear_backward(x, w3_FD, d_product * gate);
  const auto [dx_gate, d_w1] = linear_backward(x, w1_FD, d_product * up * silu_derivative(z, mistake));
  return {.x = dx_up + dx_gate, .w1 = d_w1, .w2 = d_w2, .w3 = d_w3};
}

torch::Tensor cross_entropy_backward(const torch::Tensor& logits_NV, const torch::Tensor& targets_N, Mistake mistake) {
  const torch::Tensor minus_one = torch::full({targets_N.size(0), 1}, -1.0, logits_NV.options());
  const torch::Tensor d_NV = logits_NV.softmax(-1).scatter_add(1, targets_N.unsqueeze(1), minus_one);
  return mistake == Mistake::CrossEntropy ? d_NV : d_NV / targets_N.size(0);
}

std::map<std::string, torch::Tensor> llama_backward(nn::Llama& model, const torch::Tensor& tokens_BT,
                                                    const torch::Tensor& targets_BT, Mistake mistake) {
  const torch::NoGradGuard no_grad;
  const core::ModelConfig& config = model->config();
  const auto weight = model->named_parameters();
  const auto modules = model->named_modules();
  std::map<std::string, torch::Tensor> seen, gradients;
  const torch::Tensor logits_BTV = train::forward_observed(
      model, tokens_BT, [&](const std::string& name, const torch::Tensor& value) { seen[name] = value; });

  const std::string head = config.tie_embeddings ? "tok_embeddings.weight" : "output.weight";
  const torch::Tensor d_logits_NV = cross_entropy_backward(logits_BTV.flatten(0, 1), targets_BT.flatten(), mistake);
  const auto [d_normed_BTD, d_head] = linear_backward(seen["norm"], weight[head], d_logits_NV.view_as(logits_BTV));
  gradients[head] = d_head;

  const auto back_through_norm = [&](const std::string& name, const std::string& input, const torch::Tensor& dy) {
    const auto [dx, d_weight] = rms_norm_backward(seen[input], weight[name + ".weight"], config.norm_eps, dy, mistake);
    gradients[name + ".weight"] = d_weight;
    return dx;
  };
  const auto layer_name = [](int64_t layer) { return fmt::format("layers.{}.", layer); };
  torch::Tensor dx_BTD = back_through_norm("norm", layer_name(config.n_layers - 1) + "ffn_residual", d_normed_BTD);
  for (int64_t layer = config.n_layers - 1; layer >= 0; --layer) {
    // y = x + branch(norm(x)): the gradients of both paths are added at x.
    const std::string name = layer_name(layer);
    const auto ffn = swiglu_backward(seen[name + "ffn_norm"], weight[name + "ffn.w1.weight"],
                                     weight[name + "ffn.w2.weight"], weight[name + "ffn.w3.weight"], dx_BTD, mistake);
    gradients[name + "ffn.w1.weight"] = ffn.w1;
    gradients[name + "ffn.w2.weight"] = ffn.w2;
    gradients[name + "ffn.w3.weight"] = ffn.w3;
    dx_BTD = dx_BTD + back_through_norm(name + "ffn_norm", name + "attention_residual", ffn.x);

    const auto attention = attention_backward(*modules[name + "attention"]->as<nn::AttentionImpl>(),
                                              seen[name + "attention_norm"], dx_BTD, mistake);
    gradients[name + "attention.wq.weight"] = attention.wq;
    gradients[name + "attention.wk.weight"] = attention.wk;
    gradients[name + "attention.wv.weight"] = attention.wv;
    gradients[name + "attention.wo.weight"] = attention.wo;
    const std::string input = layer == 0 ? "embedding" : layer_name(layer - 1) + "ffn_residual";
    dx_BTD = dx_BTD + back_through_norm(name + "attention_norm", input, attention.x);
  }
  // Each position looks up a row of the embedding: a row's gradient is the sum over the positions that use the row.
  const torch::Tensor d_embedding_VD =
      torch::zeros_like(weight["tok_embeddings.weight"]).index_add(0, tokens_BT.flatten(), dx_BTD.flatten(0, 1));
  torch::Tensor& sum = gradients["tok_embeddings.weight"];
  sum = sum.defined() ? sum + d_embedding_VD : d_embedding_VD;
  return gradients;
}

torch::Tensor rms_norm_jacobian(const torch::Tensor& x, const torch::Tensor& weight_D, double eps) {
  const torch::Tensor r = torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps).unsqueeze(-1);
  const auto D = static_cast<double>(x.size(-1));
  const torch::Tensor outer = x.unsqueeze(-1) * x.unsqueeze(-2);
  return weight_D.unsqueeze(-1) * r * (torch::eye(x.size(-1), x.options()) - r.square() * outer / D);
}

torch::Tensor rope_jacobian(const torch::Tensor& rotations_TP) {
  const int64_t T = rotations_TP.size(0), P = rotations_TP.size(1);
  const torch::Tensor cos_TP = at::real(rotations_TP), sin_TP = at::imag(rotations_TP);
  torch::Tensor jacobian_TKK = torch::zeros({T, 2 * P, 2 * P}, cos_TP.options());
  for (int64_t i = 0; i < P; ++i) {
    const auto entry = [&](int64_t row, int64_t column) { return jacobian_TKK.select(1, row).select(1, column); };
    entry(2 * i, 2 * i).copy_(cos_TP.select(1, i));
    entry(2 * i, 2 * i + 1).copy_(-sin_TP.select(1, i));
    entry(2 * i + 1, 2 * i).copy_(sin_TP.select(1, i));
    entry(2 * i + 1, 2 * i + 1).copy_(cos_TP.select(1, i));
  }
  return jacobian_TKK;
}

torch::Tensor softmax_jacobian(const torch::Tensor& p) {
  return torch::diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2);
}

torch::Tensor silu_jacobian(const torch::Tensor& z) { return torch::diag_embed(silu_derivative(z, Mistake::None)); }

torch::Tensor through(const torch::Tensor& jacobian, const torch::Tensor& dy) {
  return jacobian.transpose(-2, -1).matmul(dy.unsqueeze(-1)).squeeze(-1);
}

}  // namespace folio::experiments::by_hand
