#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using Layer = Tensor(nn::BlockParts& parts, const Tensor& x);

Tensor sound_layer(nn::BlockParts& parts, const Tensor& x) {
  const Tensor h = x + parts.attention.forward(parts.attention_norm.forward(x));
  return h + parts.ffn.forward(parts.ffn_norm.forward(h));
}

Tensor no_residual(nn::BlockParts& parts, const Tensor& x) {
  return parts.ffn.forward(parts.ffn_norm.forward(parts.attention.forward(parts.attention_norm.forward(x))));
}

Tensor stream_normalized(nn::BlockParts& parts, const Tensor& x) {
  const Tensor normed = parts.attention_norm.forward(x);
  const Tensor h = parts.ffn_norm.forward(normed + parts.attention.forward(normed));
  return h + parts.ffn.forward(h);
}

Tensor side_by_side(nn::BlockParts& parts, const Tensor& x) {
  return x + parts.attention.forward(parts.attention_norm.forward(x)) + parts.ffn.forward(parts.ffn_norm.forward(x));
}

Tensor branch_without_gradient(nn::BlockParts& parts, const Tensor& x) {
  const Tensor h = x + parts.attention.forward(parts.attention_norm.forward(x));
  return h + parts.ffn.forward(parts.ffn_norm.forward(h)).detach();
}

const std::vector<Mistake<Layer>> kBlockMistakes{
    {"no_residual", "WithZeroProjectionsIsTheIdentity", "a branch is not added to it", no_residual},
    {"stream_normalized", "WithZeroProjectionsIsTheIdentity", "the stream itself was normalized", stream_normalized},
    {"side_by_side", "EqualsTheFormulaOnItsParts", "gets what attention left", side_by_side},
    {"branch_without_gradient", "GradientsEqualCentralDifferences", "taken out of the graph", branch_without_gradient},
};

}  // namespace

Tensor BlockImpl::layer(const Tensor& x) { return chosen(kBlockMistakes, sound_layer)(parts_, x); }

}  // namespace folio::exercises
