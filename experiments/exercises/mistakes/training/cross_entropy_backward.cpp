#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

using LossBackward = Tensor(const Tensor& logits, const Tensor& targets);

Tensor came(const Tensor& logits, const Tensor& targets) {
  return torch::one_hot(targets, logits.size(1)).to(logits.scalar_type());
}

Tensor sound_loss_backward(const Tensor& logits, const Tensor& targets) {
  return (logits.softmax(-1) - came(logits, targets)) / logits.size(0);
}

Tensor target_forgotten(const Tensor& logits, const Tensor& /*targets*/) { return logits.softmax(-1) / logits.size(0); }

Tensor n_forgotten(const Tensor& logits, const Tensor& targets) { return logits.softmax(-1) - came(logits, targets); }

Tensor no_maximum_subtracted(const Tensor& logits, const Tensor& targets) {
  const Tensor e = logits.exp();
  return (e / e.sum(-1, true) - came(logits, targets)) / logits.size(0);
}

Tensor wrong_way_round(const Tensor& logits, const Tensor& targets) { return -sound_loss_backward(logits, targets); }

Tensor predicted_squared(const Tensor& logits, const Tensor& targets) {
  const Tensor p = logits.softmax(-1).square();
  return (p / p.sum(-1, true) - came(logits, targets)) / logits.size(0);
}

// Deliberate mistake: uses <= instead of <, so the loop writes one element past the end of d.
Tensor one_past_the_end(const Tensor& logits, const Tensor& targets) {
  const Tensor d = sound_loss_backward(logits, targets).contiguous();
  double* numbers = d.data_ptr<double>();
  for (int64_t i = 0; i <= d.numel(); ++i) numbers[i] += 0.0;
  return d;
}

const std::vector<Mistake<LossBackward>> kLossBackwardMistakes{
    {"target_forgotten", "EachRowSumsToZero", "subtract 1 at the target", target_forgotten},
    {"one_past_the_end", "EachRowSumsToZero", "past the end of an array", one_past_the_end},
    {"n_forgotten", "TheLossIsAMean", "divided by N", n_forgotten},
    {"wrong_way_round", "TheLikelyPredictionIsPushedDown", "its logit has to fall", wrong_way_round},
    {"no_maximum_subtracted", "LargeLogitsStayFinite", "Subtract the largest logit", no_maximum_subtracted},
    {"predicted_squared", "EqualsAutograd", "not autograd's gradient", predicted_squared},
};

}  // namespace

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets) {
  return chosen(kLossBackwardMistakes, sound_loss_backward)(logits, targets);
}

}  // namespace folio::exercises
