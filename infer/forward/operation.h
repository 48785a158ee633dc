// The operations of the forward pass, as values: a stage may execute, defer, fuse, record, count or time them. They
// refer to activations by slot and to weights by id, and contain no pointers.
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

/// out = embeddings of the rows' tokens * embedding_scale. `out` is Residual or Branch.
struct Embed {
  WeightId table;
  Slot out = Slot::Residual;
};

/// out = RMSNorm(in) * weight, for each row. `in` is Residual or Branch, `out` Normed or Hidden.
struct Norm {
  WeightId weight;
  Slot in = Slot::Residual;
  Slot out = Slot::Normed;
};

/// x = RMSNorm(x) * weight. In Query and Key, x is each vector of the weight's size: a head or, in some families, all
/// heads of a row. Otherwise it is a whole row of QueryLatent, or the elements of Latent that RoPE doesn't rotate.
/// `slot` is one of these four.
struct NormHeads {
  Slot slot;
  WeightId weight;
};

/// A matrix to multiply a slot by, its optional bias, and the slot for the result.
struct Projection {
  WeightId weight;
  WeightId bias;
  Slot out = Slot::Branch;
};

/// out = in · weightᵀ + bias for each projection, plus the row's LoRA update, if any (reference/kernels.h).
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

/// Residual += residual_scale * y, where y = in · weightᵀ + bias, plus the row's LoRA update, if any. If the family has
/// a post_norm, RMSNorm(y) * post_norm is added instead of y.
struct ProjectToResidual {
  Slot in;
  WeightId weight;
  WeightId bias;
  WeightId post_norm;
};

/// Multiplies the first elements of each head of `in` by the head's own matrix in `weight`. The result is in `out`.
/// If `in` is Query, the last elements of each head, which RoPE rotates, are copied to the end of that head in `out`.
struct ProjectHeads {
  Slot in;
  WeightId weight;
  Slot out;
};

/// Applies the layer's RoPE to Query and Key, and stores Key and Value in the KV cache. With latent attention, applies
/// RoPE to the last elements of Query's heads and of Latent, and stores Latent.
struct RotateAndStore {
  int64_t layer;
};

/// Heads = causal attention of Query over the cached positions of each row's sequence, limited to the layer's sliding
/// window if it has one. `sinks` is an optional extra score per head. With latent attention, Attended = attention of
/// Absorbed over the cached latents.
struct Attend {
  int64_t layer;
  WeightId sinks;
};

/// gate = silu(gate) * up, or the family's activation (core::Gate). The slots are Gate and Up, SharedGate and SharedUp,
/// or ExpertGate and ExpertUp.
struct Activate {
  Slot gate;
  Slot up;
};

/// Selects each row's experts by the scores Normed · weightᵀ + bias, plus the optional selection_bias, and stores their
/// weights in Routes: see kernels::route.
struct Route {
  WeightId weight;
  WeightId bias;
  WeightId selection_bias;
};

/// One matrix per expert, with an optional bias.
struct ExpertMatrix {
  WeightId weight;
  WeightId bias;
};

/// ExpertGate and ExpertUp = Normed · matrixᵀ + bias, for each expert selected for the row.
struct ProjectExperts {
  ExpertMatrix gate;
  ExpertMatrix up;
};

/// Residual += Σ route · (ExpertGate · matrixᵀ + bias), summed over the row's experts in order of index, where route is
/// the expert's weight in Routes.
struct CombineExperts {
  ExpertMatrix down;
};

/// Multiplies each row of the slot by sigmoid(Normed · weight).
struct GateRows {
  Slot slot;
  WeightId weight;
};

/// Moves the rows of Residual and Query that need logits, at least one, to the front. Later operations compute only
/// these rows. Issued right after the last layer's RotateAndStore or, if the step keeps all rows' Hidden, after Hidden
/// is computed.
struct Gather {};

/// Applies the configuration's logit_scale and logit_cap to Logits.
struct FinishLogits {};

/// Draws the step's tokens from Logits, which stay unchanged. A token differs from the one that the draw's Sampler
/// would draw on the host only where rounding shifts the boundary between two tokens.
struct DrawTokens {};

using Operation =
    std::variant<Embed, Norm, NormHeads, Project, ProjectToResidual, ProjectHeads, RotateAndStore, Attend, Activate,
                 Route, ProjectExperts, CombineExperts, GateRows, Gather, FinishLogits, DrawTokens>;

}  // namespace folio::infer
