// Expert parallelism: the experts of a mixture are divided among ranks, each with its own tokens. Rows are sent to the
// ranks of their experts and back.
//
//   2 ranks, 4 experts, 2 per row           rank 0: experts 0, 1        rank 1: experts 2, 3
//                                           rows a, b                   rows c, d
//   route the rank's own rows               a: 0, 2   b: 1, 3           c: 0, 1   d: 2, 3
//   sort by expert                          a0 b1 a2 b3                 c0 c1 d2 d3
//   exchange                                a0 b1 c0 c1   ◀──────▶      a2 b3 d2 d3
//   experts                                 0(a c) 1(b c)               2(a d) 3(b d)
//   exchange back, weighted sums            a0 b1 a2 b3 → a, b          c0 c1 d2 d3 → c, d
//
// The backward pass mirrors this. With N rows of dimension D and K experts per row, each of e ranks sends about
// N · K · D · (e - 1) / e elements in each of four exchanges. It also sends the number of rows for each expert, before
// the first exchange.
#pragma once

#include "modules/families/mixture.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

/// A mixture whose E experts are divided evenly among e ranks: rank i has experts i · E/e to (i + 1) · E/e - 1, with
/// parameters experts.{w1,w3}.weight [E/e, F, D] and experts.w2.weight [E/e, D, F], for model width D and hidden width
/// F. Router, selection bias, shared expert and take_load() apply to the rank's own rows. All ranks must call forward()
/// together, with any numbers of rows. Source: Lepikhin et al., "GShard", 2020, section 3.2, without expert capacity.
class ExpertParallelMixtureImpl : public nn::MixtureImpl {
 public:
  /// Requires a number of experts that is a multiple of the number of ranks. The group must outlive the module and
  /// its graphs.
  ExpertParallelMixtureImpl(const core::ModelConfig& config, Group& experts, nn::ExpertProducts products = {});

 protected:
  torch::Tensor of_experts(const torch::Tensor& x, const nn::Routes& routes) override;

 private:
  Group& group_;
};
TORCH_MODULE(ExpertParallelMixture);

}  // namespace folio::train::parallel
