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

torch::Tensor BlockImpl::forward(torch::Tensor x_BTD, const Observer& observer, const std::string& prefix) {
  const auto show = [&](const std::string& name, const torch::Tensor& value) {
    if (observer) observer(prefix + name, value);
  };
  const auto add = [&](const std::string& name, torch::nn::AnyModule& norm, torch::nn::AnyModule& branch) {
    const torch::Tensor normed_BTD = norm.forward(x_BTD);
    show(name + "_norm", normed_BTD);
    const torch::Tensor branch_BTD = branch.forward(normed_BTD);
    if (branch_BTD.sizes() != x_BTD.sizes()) {
      core::fail("Block: {}{} has to return {}, but returned {}", prefix, name, describe(x_BTD), describe(branch_BTD));
    }
    show(name, branch_BTD);
    x_BTD = x_BTD + torch::dropout(branch_BTD, dropout_, is_training());
    show(name + "_residual", x_BTD);
  };
  add("attention", parts_.attention_norm, parts_.attention);
  add("ffn", parts_.ffn_norm, parts_.ffn);
  return x_BTD;
}

}  // namespace folio::nn
