#include "infer/engine/beams.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace folio::infer {

Beams::Beams(const BeamOptions& options, size_t max_tokens)
    : options_(options), width_(static_cast<size_t>(options.width)), max_tokens_(max_tokens) {
  core::require(options.width >= 1 && options.width <= kMostBeams, "the number of beams is {}, but must be in [1, {}]",
                options.width, kMostBeams);
  core::require(std::abs(options.length_penalty) <= kMostLengthPenalty, "length_penalty is {}, but must be in [{}, {}]",
                options.length_penalty, -kMostLengthPenalty, kMostLengthPenalty);
}

double Beams::score(double log_prob, size_t n_tokens) const {
  return log_prob / std::pow(static_cast<double>(n_tokens), options_.length_penalty);
}

// Selects the next beams from all candidates, likeliest first. A candidate that ends its sequence is kept only if it is
// among the first width_, and doesn't count against the width_ beams that continue.
std::vector<Continuation> Beams::decide(std::span<const SequenceState> beams) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < beams.size(); ++i) find_candidates(i, beams[i], candidates);
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::log_prob);
  ++n_tokens_;
  log_probs_.clear();
  std::vector<Continuation> next;
  for (size_t rank = 0; rank < candidates.size() && (rank < width_ || log_probs_.size() < width_); ++rank) {
    const Candidate& c = candidates[rank];
    const bool ends = c.ends || n_tokens_ >= max_tokens_;
    if (ends ? rank >= width_ : log_probs_.size() == width_) continue;
    const double own = score(c.log_prob, n_tokens_);
    next.push_back({.from = c.beam, .token = c.token, .ends = ends, .score = own});
    if (ends) {
      best_.insert(std::ranges::upper_bound(best_, own, std::ranges::greater{}), own);
    } else {
      log_probs_.push_back(c.log_prob);
    }
  }
  best_.resize(std::min(best_.size(), width_));
  if (is_done()) std::erase_if(next, [](const Continuation& c) { return !c.ends; });
  return next;
}

bool Beams::is_done() const {
  if (log_probs_.empty()) return true;
  if (best_.size() < width_) return false;
  const bool longer = options_.early_stopping == EarlyStopping::Never && options_.length_penalty > 0.0;
  const double most = score(log_probs_.front(), longer ? max_tokens_ : n_tokens_);
  return options_.early_stopping == EarlyStopping::True || most <= best_.back();
}

// Adds a beam's likeliest next tokens. Probabilities are the softmax over all tokens, including forbidden ones.
void Beams::find_candidates(size_t beam, const SequenceState& state, std::vector<Candidate>& candidates) {
  const float largest = largest_of(state.logits);
  ranking_.reset(state.logits, largest, 1.0, 0);
  const auto [low, high] = ranking_.total_bounds();
  const double log_total = largest + std::log((low + high) / 2);
  const bool has_form = state.allowed.data() != state.logits.data();
  if (has_form) {
    const float likeliest = state.allowed.empty() ? kForbidden : largest_of(state.allowed);
    if (likeliest == kForbidden) return;
    ranking_.reset(state.allowed, likeliest, 1.0, 0);
  }
  const size_t n_before = candidates.size();
  size_t n_continuing = 0;
  for (size_t i = 0; i < ranking_.size() && n_continuing < width_; ++i) {
    const auto& [token, logit, weight] = ranking_[i];
    const TokenEffect effect = state.effect_of(token);
    if (effect == TokenEffect::Forbidden) continue;
    candidates.push_back({.beam = beam,
                          .token = token,
                          .log_prob = log_probs_[beam] + (logit - log_total),
                          .ends = effect == TokenEffect::Ends});
    n_continuing += effect == TokenEffect::Continues ? 1 : 0;
  }
  core::require(has_form || candidates.size() > n_before, "no token can be sampled: all are forbidden");
}

}  // namespace folio::infer
