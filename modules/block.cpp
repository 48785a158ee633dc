// Shapes: B sequences, T positions, D model width.
#include "modules/block.h"

#include <utility>

#include "core/error.h"
#include "modules/attention.h"
#include "modules/rms_norm.h"
#include "modules/shapes.h"
#include "modules/swiglu.h"

namespace folio::nn {

using torch::nn::AnyModule;

BlockParts llama_parts(const core::ModelConfig& config, RopeCache rope, double dropout) {
  core::validate(config, "llama_parts");
  return {.attention_norm = AnyModule(RMSNorm(config.dim, config.norm_eps)),
          .attention = AnyModule(Attention(config, std::move(rope), dropout)),
          .ffn_norm = AnyModule(RMSNorm(config.dim, config.norm_eps)),
          .ffn = AnyModule(SwiGLU(config.dim, config.hidden_dim))};
}

BlockImpl::BlockImpl(BlockParts parts, double dropout) : parts_(std::move(parts)), dropout_(dropout) {
  core::require(dropout >= 0 && dropout < 1, "Block: dropout has to be in [0, 1), but is {}", dropout);
  register_module("attention_norm", parts_.attention_norm.ptr());
  register_module("attention", parts_.attention.ptr());
  register_module("ffn_norm", parts_.ffn_norm.ptr());
  register_module("ffn", parts_.ffn.ptr());
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
  const auto dropped = [&](const torch::Tensor& y_BTD) { return torch::dropout(y_BTD, dropout_, is_training()); };

  // x + attention(norm(x))
  const auto normed_BTD = apply("attention_norm", parts_.attention_norm, x_BTD);
  const auto attended_BTD = starts_BT.defined() ? apply("attention", parts_.attention, normed_BTD, starts_BT)
                                                : apply("attention", parts_.attention, normed_BTD);
  const auto h_BTD = seen("attention_residual", x_BTD + dropped(attended_BTD));

  // h + ffn(norm(h))
  const auto normed_h_BTD = apply("ffn_norm", parts_.ffn_norm, h_BTD);
  const auto fed_BTD = apply("ffn", parts_.ffn, normed_h_BTD);
  return seen("ffn_residual", h_BTD + dropped(fed_BTD));
}

}  // namespace folio::nn
