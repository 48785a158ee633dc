// Shapes: B sequences, T positions, D model width.
#include "modules/block.h"

#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {
namespace {

using torch::nn::AnyModule;

torch::Tensor normed(AnyModule& norm, const torch::Tensor& x) { return norm.is_empty() ? x : norm.forward(x); }

// Returns y. Throws if its shape is not that of x, because the residual sum could silently broadcast y.
torch::Tensor checked(const torch::Tensor& y, const torch::Tensor& x, const char* name) {
  if (y.sizes() == x.sizes()) return y;
  core::fail("Block: {} returned {}, expected {}", name, describe(y), describe(x));
}

}  // namespace

BlockImpl::BlockImpl(double dropout) : dropout_(dropout) {
  core::require(dropout >= 0 && dropout < 1, "Block: dropout is {}, expected a value in [0, 1)", dropout);
}

BlockImpl::BlockImpl(BlockParts parts, double dropout) : BlockImpl(dropout) {
  parts_ = std::move(parts);
  add("attention_norm", parts_.attention_norm);
  add("attention", parts_.attention);
  add("ffn_norm", parts_.ffn_norm);
  add("ffn", parts_.ffn);
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x_BTD, const torch::Tensor& starts_BT) {
  const auto h_BTD = x_BTD + torch::dropout(attended(x_BTD, starts_BT), dropout_, is_training());
  return h_BTD + torch::dropout(fed(h_BTD), dropout_, is_training());
}

torch::Tensor BlockImpl::attended(const torch::Tensor& x_BTD, const torch::Tensor& starts_BT) {
  const auto normed_BTD = normed(parts_.attention_norm, x_BTD);
  const torch::Tensor y_BTD =
      starts_BT.defined() ? parts_.attention.forward(normed_BTD, starts_BT) : parts_.attention.forward(normed_BTD);
  return checked(y_BTD, x_BTD, "attention");
}

torch::Tensor BlockImpl::fed(const torch::Tensor& h_BTD) {
  return checked(parts_.ffn.forward(normed(parts_.ffn_norm, h_BTD)), h_BTD, "ffn");
}

}  // namespace folio::nn
