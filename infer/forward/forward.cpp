#include "infer/forward/forward.h"

#include <array>

#include "infer/forward/latent_attention.h"
#include "infer/forward/slot_observer.h"
#include "infer/forward/tokens_ahead.h"

namespace folio::infer {
namespace {

using core::Role;

// Issues the operations of one stage's layers: the forward pass of Llama and of families that replace parts of it.
void run_layers(Stage& m, const Step& step, const Observer& observer) {
  using enum Slot;
  const StageWeights& w = m.weights();
  size_t n = step.rows.size();
  SlotObserver see(m, observer);

  if (w.has(Role::MtpProjection, m.layers().first)) {
    join_hidden(m);
  } else if (w.has(Role::TokenEmbedding)) {
    m.issue(Embed{w(Role::TokenEmbedding)});
    see("embedding", Residual, n);
  }
  const auto normed = [&](Role norm, int64_t l) {  // some families have no norm here: the input is Residual itself
    if (!w.has(norm, l)) return Residual;
    m.issue(Norm{w(norm, l)});
    return Normed;
  };
  for (int64_t l = m.layers().first; l < m.layers().last; ++l) {
    const Slot attended = normed(Role::AttentionNorm, l);
    see("attention_norm", attended, n, l);
    const bool latent = w.has(Role::WkvA, l);
    if (latent) {
      project_latent(m, attended, l);
    } else {
      m.issue(Project(attended, std::array{Projection{w(Role::Wq, l), w(Role::Bq, l), Query},
                                           Projection{w(Role::Wk, l), w(Role::Bk, l), Key},
                                           Projection{w(Role::Wv, l), w(Role::Bv, l), Value}}));
    }
    see("projected_query", Query, n, l);
    see("projected_key", Key, n, l);
    see("projected_latent", Latent, n, l);
    if (w.has(Role::QueryNorm, l)) {
      m.issue(NormHeads{Query, w(Role::QueryNorm, l)});
      m.issue(NormHeads{Key, w(Role::KeyNorm, l)});
    }
    m.issue(RotateAndStore{l});
    see("query", Query, n, l);
    see("key", Key, n, l);
    see("latent", Latent, n, l);
    see("value", Value, n, l);
    if (w.has(Role::Output) && l + 1 == m.layers().last && !step.keeps_hidden) {
      // From here on, only the rows that need logits are computed.
      n = step.n_logit_rows;
      if (n == 0) return;
      m.issue(Gather{});
    }
    latent ? attend_latents(m, l) : m.issue(Attend{l, w(Role::AttentionSinks, l)});
    see("heads", Heads, n, l);
    m.issue(ProjectToResidual{Heads, w(Role::Wo, l), w(Role::Bo, l), w(Role::PostAttentionNorm, l)});
    see("attention_residual", Residual, n, l);

    const Slot fed = normed(Role::FfnNorm, l);
    see("ffn_norm", fed, n, l);
    const bool experts = w.has(Role::Router, l);
    if (experts) {
      m.issue(Route{w(Role::Router, l), w(Role::RouterBias, l), w(Role::SelectionBias, l)});
      see("routes", Routes, n, l);
      m.issue(
          ProjectExperts{{w(Role::ExpertW1, l), w(Role::ExpertB1, l)}, {w(Role::ExpertW3, l), w(Role::ExpertB3, l)}});
      m.issue(Activate{ExpertGate, ExpertUp});
      m.issue(CombineExperts{{w(Role::ExpertW2, l), w(Role::ExpertB2, l)}});
    }
    if (w.has(Role::W1, l)) {  // a dense feed-forward network, or the experts that all rows share
      const Slot gate = experts ? SharedGate : Gate, up = experts ? SharedUp : Up;
      m.issue(Project(fed, std::array{Projection{w(Role::W1, l), {}, gate}, Projection{w(Role::W3, l), {}, up}}));
      m.issue(Activate{gate, up});
      if (w.has(Role::SharedGate, l)) m.issue(GateRows{gate, w(Role::SharedGate, l)});
      see("ffn_hidden", gate, n, l);
      m.issue(ProjectToResidual{gate, w(Role::W2, l), {}, w(Role::PostFfnNorm, l)});
    }
    see("ffn_residual", Residual, n, l);
  }
  if (!w.has(Role::Output)) return;
  if (step.keeps_hidden) {
    n = step.n_logit_rows;
    if (!keep_hidden(m, n)) return;
  }
  m.issue(Norm{w(Role::OutputNorm)});
  see("norm", Normed, n);
  m.issue(Project(Normed, std::array{Projection{w(Role::Output), {}, Logits}}));
  m.issue(FinishLogits{});
  see("logits", Logits, n);
  if (!step.draws.empty()) m.issue(DrawTokens{});
}

}  // namespace

void forward(std::span<const std::unique_ptr<Stage>> stages, Step step, const Observer& observer) {
  std::vector<float> residual;  // (rows, dim): a stage's output, the next stage's input
  for (const auto& stage : stages) {
    if (!stage->begin(step)) {
      run_layers(*stage, step, observer);
      stage->end();
    }
    if (stage == stages.back()) break;
    residual.resize(step.rows.size() * stage->width(Slot::Residual));
    stage->read(Slot::Residual, residual);
    step.residual = residual;
  }
}

}  // namespace folio::infer
