// Shapes: B sequences, T positions, D model width.
#include "modules/block.h"

#include <utility>

#include "core/error.h"
#include "modules/attention.h"
#include "modules/experts.h"
#include "modules/rms_norm.h"
#include "modules/shapes.h"
#include "modules/swiglu.h"

namespace folio::nn {

using torch::nn::AnyModule;

BlockParts llama_parts(const core::ModelConfig& config, RopeCache rope, double dropout, int64_t layer) {
  core::validate(config, "llama_parts");
  const core::FamilyInfo& family = core::info(config.family);
  const auto norm = [&](bool has) { return has ? AnyModule(RMSNorm(config.dim, config.norm_eps)) : AnyModule(); };
  return {.attention_norm = norm(family.pre_norms),
          .attention = AnyModule(Attention(config, std::move(rope), dropout)),
          .ffn_norm = norm(family.pre_norms),
          .ffn = config.has_experts(layer) ? AnyModule(Mixture(config))
                                           : AnyModule(SwiGLU(config.dim, config.hidden_dim, family.gate)),
          .post_attention_norm = norm(family.post_norms),
          .post_ffn_norm = norm(family.post_norms),
          .residual_scale = config.residual_scale};
}

BlockImpl::BlockImpl(BlockParts parts, double dropout) : parts_(std::move(parts)), dropout_(dropout) {
  core::require(dropout >= 0 && dropout < 1, "Block: dropout has to be in [0, 1), but is {}", dropout);
  const auto add = [this](const char* name, const AnyModule& part) {
    if (!part.is_empty()) register_module(name, part.ptr());
  };
  add("attention_norm", parts_.attention_norm);
  add("attention", parts_.attention);
  add("post_attention_norm", parts_.post_attention_norm);
  add("ffn_norm", parts_.ffn_norm);
  add("ffn", parts_.ffn);
  add("post_ffn_norm", parts_.post_ffn_norm);
}

torch::Tensor BlockImpl::forward(torch::Tensor x_BTD, const Observer& observer, const std::string& prefix,
                                 const torch::Tensor& starts_BT) {
  const auto seen = [&](const char* name, const torch::Tensor& value_BTD) {
    if (observer) observer(prefix + name, value_BTD);
    return value_BTD;
  };
  const auto apply = [&](const char* name, AnyModule& part, const auto&... inputs) {
    const torch::Tensor output_BTD = part.forward(inputs...);
    if (output_BTD.sizes() != x_BTD.sizes()) {
      core::fail("Block: {}{} has to return {}, but returned {}", prefix, name, describe(x_BTD), describe(output_BTD));
    }
    return seen(name, output_BTD);
  };
  const auto normed = [&](const char* name, AnyModule& norm, const torch::Tensor& y_BTD) {
    return norm.is_empty() ? seen(name, y_BTD) : apply(name, norm, y_BTD);
  };
  // What a branch adds to the stream.
  const auto added = [&](torch::Tensor y_BTD, AnyModule& post_norm) {
    if (!post_norm.is_empty()) y_BTD = post_norm.forward(y_BTD);
    if (parts_.residual_scale != 1.0) y_BTD = y_BTD * parts_.residual_scale;
    return torch::dropout(y_BTD, dropout_, is_training());
  };

  // x + attention(norm(x))
  const auto normed_BTD = normed("attention_norm", parts_.attention_norm, x_BTD);
  const auto attended_BTD = starts_BT.defined() ? apply("attention", parts_.attention, normed_BTD, starts_BT)
                                                : apply("attention", parts_.attention, normed_BTD);
  const auto h_BTD = seen("attention_residual", x_BTD + added(attended_BTD, parts_.post_attention_norm));

  // h + ffn(norm(h))
  const auto normed_h_BTD = normed("ffn_norm", parts_.ffn_norm, h_BTD);
  const auto fed_BTD = apply("ffn", parts_.ffn, normed_h_BTD);
  return seen("ffn_residual", h_BTD + added(fed_BTD, parts_.post_ffn_norm));
}

}  // namespace folio::nn
