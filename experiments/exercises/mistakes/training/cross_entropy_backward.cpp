// The mistakes, each with the test that must fail first and words of its message:
//     target_forgotten: EachRowSumsToZero: subtract 1 at the target
//     one_past_the_end: EachRowSumsToZero: past the end of an array
//     n_forgotten: TheLossIsAMean: divided by N
//     wrong_way_round: TheLikelyPredictionIsPushedDown: its logit has to fall
//     no_maximum_subtracted: LargeLogitsStayFinite: Subtract the largest logit
//     one_maximum_for_all: LargeLogitsStayFinite: row has its own
//     predicted_squared: EqualsAutograd: not autograd's gradient
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets) {
  Tensor p = logits.softmax(-1);
  if (wrong("predicted_squared")) p = p.square() / p.square().sum(-1, true);
  if (wrong("no_maximum_subtracted")) p = logits.exp() / logits.exp().sum(-1, true);
  if (wrong("one_maximum_for_all")) p = (logits - logits.max()).exp() / (logits - logits.max()).exp().sum(-1, true);
  Tensor d = p - torch::one_hot(targets, logits.size(1)).to(logits.scalar_type());
  if (wrong("target_forgotten")) d = p;
  if (wrong("wrong_way_round")) d = -d;
  if (!wrong("n_forgotten")) d = d / logits.size(0);
  if (wrong("one_past_the_end")) {
    d = d.contiguous();
    for (int64_t i = 0; i <= d.numel(); ++i) d.data_ptr<double>()[i] += 0.0;  // <= instead of <
  }
  return d;
}

}  // namespace folio::exercises
