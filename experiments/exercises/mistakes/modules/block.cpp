// The mistakes, each with the test that must fail first and words of its message:
//     no_residual: WithZeroProjectionsIsTheIdentity: a branch is not added to it
//     stream_normalized: WithZeroProjectionsIsTheIdentity: the stream itself was normalized
//     side_by_side: EqualsTheFormulaOnItsParts: gets what attention left
//     branch_without_gradient: GradientsEqualCentralDifferences: taken out of the graph
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor BlockImpl::layer(const Tensor& x) {
  const Tensor normed = parts_.attention_norm.forward(x);
  const Tensor attended = parts_.attention.forward(normed);
  if (wrong("no_residual")) return parts_.ffn.forward(parts_.ffn_norm.forward(attended));
  if (wrong("side_by_side")) return x + attended + parts_.ffn.forward(parts_.ffn_norm.forward(x));
  if (wrong("stream_normalized")) {
    const Tensor h = parts_.ffn_norm.forward(normed + attended);
    return h + parts_.ffn.forward(h);
  }
  const Tensor h = x + attended;
  const Tensor fed_forward = parts_.ffn.forward(parts_.ffn_norm.forward(h));
  return h + (wrong("branch_without_gradient") ? fed_forward.detach() : fed_forward);
}

}  // namespace folio::exercises
