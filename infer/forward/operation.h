// The operations of the forward pass as values: a stage computes them, or holds them back, fuses, records, counts or
// times them. They name activations by slot and weights by number, and refer to nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "infer/forward/slots.h"
#include "infer/forward/stage_weights.h"

namespace folio::infer {

/// Residual = the embeddings of the rows' tokens, times the configuration's embedding_scale.
struct Embed {
  WeightId table;
};

/// Normed = RMSNorm(Residual) * weight, over each row.
struct Norm {
  WeightId weight;
};

/// Each head of the slot, Query or Key, = RMSNorm(head) * weight.
struct NormHeads {
  Slot slot;
  WeightId weight;
};

/// The matrix that a slot is multiplied by, the bias if there is one, and where the sum goes.
struct Projection {
  WeightId weight;
  WeightId bias;
  Slot out = Slot::Branch;
};

/// Each projection's out = in · weightᵀ + bias, and for rows with an adapter its part: see reference/kernels.h.
struct Project {
  template <size_t N>
  Project(Slot input, const std::array<Projection, N>& all) : in(input), n(N) {
    static_assert(N <= kMost);
    std::ranges::copy(all, list.begin());
  }
  [[nodiscard]] std::span<const Projection> projections() const { return std::span(list).first(n); }

  static constexpr size_t kMost = 3;
  Slot in;
  uint8_t n;
  std::array<Projection, kMost> list{};
};

/// Residual += in · weightᵀ + bias, and an adapter's part likewise; with `post_norm` RMSNorm(that sum) * post_norm is
/// added. What is added is multiplied by the configuration's residual_scale.
struct ProjectToResidual {
  Slot in;
  WeightId weight;
  WeightId bias;
  WeightId post_norm;
};

/// Rotates Query and Key by their rows' positions, as the layer does, and stores Key and Value in the cache.
struct RotateAndStore {
  int64_t layer;
};

/// Heads = attention of Query over the positions of its sequence up to its own, or those of them in the sliding window,
/// read from the cache, and each head's sink if there are some.
struct Attend {
  int64_t layer;
  WeightId sinks;
};

/// gate = silu(gate) * up, or the family's core::Gate: Gate and Up, or SharedGate and SharedUp, or ExpertGate and
/// ExpertUp.
struct Activate {
  Slot gate;
  Slot up;
};

/// Chooses each row's experts by their scores, Normed · weightᵀ + bias, to which selection_bias is added if there is
/// one, and weighs them: see kernels::route.
struct Route {
  WeightId weight;
  WeightId bias;
  WeightId selection_bias;
};

/// A matrix of each expert, and its bias if there is one.
struct ExpertMatrix {
  WeightId weight;
  WeightId bias;
};

/// ExpertGate and ExpertUp = the row of Normed · the matrixᵀ + bias of each expert that the row takes.
struct ProjectExperts {
  ExpertMatrix gate;
  ExpertMatrix up;
};

/// Residual += Σ route · (the row's ExpertGate · the matrixᵀ + bias), over the row's experts in ascending order.
struct CombineExperts {
  ExpertMatrix down;
};

/// Each row of the slot *= sigmoid(Normed · weight).
struct GateRows {
  Slot slot;
  WeightId weight;
};

/// Moves the rows of Residual and Query that need logits, at least one, to the front; the operations that follow
/// compute only these. The next one is the last layer's Attend.
struct Gather {};

/// Applies the configuration's logit_scale and logit_cap to Logits.
struct FinishLogits {};

/// Draws the step's tokens from Logits, which stay as they are: for each draw the token that its Sampler would draw,
/// except for roundings where probabilities meet.
struct DrawTokens {};

using Operation = std::variant<Embed, Norm, NormHeads, Project, ProjectToResidual, RotateAndStore, Attend, Activate,
                               Route, ProjectExperts, CombineExperts, GateRows, Gather, FinishLogits, DrawTokens>;

}  // namespace folio::infer
