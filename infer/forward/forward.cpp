#include "infer/forward/forward.h"

#include <array>

#include "infer/forward/latent_attention.h"
#include "infer/forward/tokens_ahead.h"
#include "infer/forward/watch.h"

namespace folio::infer {
namespace {

using core::Role;

// Issues the operations of one stage's layers: the forward pass of Llama and of families that replace parts of it.
void run_layers(Stage& m, const Step& step, const Observer& observer) {
  using enum Slot;
  const StageWeights& w = m.weights();
  size_t n = step.rows.size();
  Watch see(m, observer);

  if (w.has(Role::MtpProjection, m.layers().first)) {
    join_hidden(m);
  } else if (w.has(Role::TokenEmbedding)) {
    m.embed(w(Role::TokenEmbedding));
    see("embedding", Residual, n);
  }
  const auto normed = [&](Role norm, int64_t l) {  // some families have no norm here: the input is Residual itself
    if (!w.has(norm, l)) return Residual;
    m.norm(w(norm, l));
    return Normed;
  };
  for (int64_t l = m.layers().first; l < m.layers().last; ++l) {
    const Slot attended = normed(Role::AttentionNorm, l);
    see("attention_norm", attended, n, l);
    const bool latent = w.has(Role::WkvA, l);
    if (latent) {
      project_latent(m, attended, l);
    } else {
      m.project(attended, std::array{Projection{w(Role::Wq, l), w(Role::Bq, l), Query},
                                     Projection{w(Role::Wk, l), w(Role::Bk, l), Key},
                                     Projection{w(Role::Wv, l), w(Role::Bv, l), Value}});
    }
    see("projected_query", Query, n, l);
    see("projected_key", Key, n, l);
    see("projected_latent", Latent, n, l);
    if (w.has(Role::QueryNorm, l)) {
      m.norm_heads(Query, w(Role::QueryNorm, l));
      m.norm_heads(Key, w(Role::KeyNorm, l));
    }
    m.rotate_and_store(l);
    see("query", Query, n, l);
    see("key", Key, n, l);
    see("latent", Latent, n, l);
    see("value", Value, n, l);
    if (w.has(Role::Output) && l + 1 == m.layers().last && !step.keeps_hidden) {
      // From here on, only the rows that need logits are computed.
      n = step.n_logit_rows;
      if (n == 0) return;
      m.gather();
    }
    latent ? attend_latents(m, l) : m.attend(l, w(Role::AttentionSinks, l));
    see("heads", Heads, n, l);
    m.project_to_residual(Heads, w(Role::Wo, l), w(Role::Bo, l), w(Role::PostAttentionNorm, l));
    see("attention_residual", Residual, n, l);

    const Slot fed = normed(Role::FfnNorm, l);
    see("ffn_norm", fed, n, l);
    const bool experts = w.has(Role::Router, l);
    if (experts) {
      m.route({w(Role::Router, l), w(Role::RouterBias, l), w(Role::SelectionBias, l)});
      see("routes", Routes, n, l);
      m.project_experts({w(Role::ExpertW1, l), w(Role::ExpertB1, l)}, {w(Role::ExpertW3, l), w(Role::ExpertB3, l)});
      m.activate(ExpertGate, ExpertUp);
      m.combine_experts({w(Role::ExpertW2, l), w(Role::ExpertB2, l)});
    }
    if (w.has(Role::W1, l)) {  // a dense feed-forward network, or the experts that all rows share
      const Slot gate = experts ? SharedGate : Gate, up = experts ? SharedUp : Up;
      m.project(fed, std::array{Projection{w(Role::W1, l), {}, gate}, Projection{w(Role::W3, l), {}, up}});
      m.activate(gate, up);
      if (w.has(Role::SharedGate, l)) m.gate_rows(gate, w(Role::SharedGate, l));
      see("ffn_hidden", gate, n, l);
      m.project_to_residual(gate, w(Role::W2, l), {}, w(Role::PostFfnNorm, l));
    }
    see("ffn_residual", Residual, n, l);
  }
  if (!w.has(Role::Output)) return;
  if (step.keeps_hidden) {
    n = step.n_logit_rows;
    if (!keep_hidden(m, n)) return;
  }
  m.norm(w(Role::OutputNorm));
  see("norm", Normed, n);
  m.project(Normed, std::array{Projection{w(Role::Output), {}, Logits}});
  m.finish_logits();
  see("logits", Logits, n);
  if (!step.draws.empty()) m.draw();
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
    stage->results().read(Slot::Residual, residual);
    step.residual = residual;
  }
}

}  // namespace folio::infer
