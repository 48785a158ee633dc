#include "infer/forward/latent_attention.h"

#include <array>

namespace folio::infer {

using core::Role;

void project_latent(Stage& m, Slot in, int64_t l) {
  using enum Slot;
  const StageWeights& w = m.weights();
  const Projection latent{w(Role::WkvA, l), {}, Latent};
  if (w.has(Role::WqA, l)) {
    m.issue(Project(in, std::array{Projection{w(Role::WqA, l), {}, QueryLatent}, latent}));
    m.issue(NormHeads{QueryLatent, w(Role::QueryLatentNorm, l)});
    m.issue(Project(QueryLatent, std::array{Projection{w(Role::WqB, l), {}, Query}}));
  } else {
    m.issue(Project(in, std::array{Projection{w(Role::Wq, l), {}, Query}, latent}));
  }
  m.issue(NormHeads{Latent, w(Role::LatentNorm, l)});
}

void attend_latents(Stage& m, int64_t l) {
  using enum Slot;
  const StageWeights& w = m.weights();
  m.issue(ProjectHeads{Query, w(Role::WkB, l), Absorbed});
  m.issue(Attend{l, {}});
  m.issue(ProjectHeads{Attended, w(Role::WvB, l), Heads});
}

}  // namespace folio::infer
