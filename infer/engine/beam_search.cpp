#include "infer/engine/beam_search.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace folio::infer {

BeamSearch::BeamSearch(const BeamOptions& options, size_t max_tokens) : options_(options), max_tokens_(max_tokens) {
  core::require(options.width >= 1 && options.width <= kMostBeams, "{} beams are not in [1, {}]", options.width,
                kMostBeams);
  core::require(std::abs(options.length_penalty) <= kMostLengthPenalty,
                "length_penalty is {}, but has to be in [{}, {}]", options.length_penalty, -kMostLengthPenalty,
                kMostLengthPenalty);
}

double BeamSearch::score(double log_prob, size_t n_tokens) const {
  return log_prob / std::pow(static_cast<double>(n_tokens), options_.length_penalty);
}

// A text that ends counts only if it is among the width() most likely, and others take the place of those that end: so
// there are width() texts that go on, as long as there are candidates.
std::vector<BeamSearch::Candidate> BeamSearch::step(std::vector<Candidate> candidates,
                                                    std::span<const std::span<const int32_t>> texts) {
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::log_prob);
  ++n_tokens_;
  std::vector<Candidate> next;
  for (size_t rank = 0; rank < candidates.size() && (rank < width() || next.size() < width()); ++rank) {
    Candidate& c = candidates[rank];
    if (c.ending == Ending::None && n_tokens_ >= max_tokens_) c.ending = Ending::Length;
    if (c.ending == Ending::None) {
      if (next.size() < width()) next.push_back(c);
    } else if (rank < width()) {
      keep(c, texts[c.beam]);
    }
  }
  done_ = next.empty();
  if (!done_ && finished_.size() == width()) {
    const bool longer = options_.early_stopping == EarlyStopping::Never && options_.length_penalty > 0.0;
    const double most = score(next.front().log_prob, longer ? max_tokens_ : n_tokens_);
    done_ = options_.early_stopping == EarlyStopping::True || most <= finished_.back().score;
  }
  return next;
}

void BeamSearch::keep(const Candidate& candidate, std::span<const int32_t> text) {
  Finished f{.tokens = {text.begin(), text.end()},
             .score = score(candidate.log_prob, text.size() + 1),
             .ending = candidate.ending};
  if (candidate.ending != Ending::EndToken) f.tokens.push_back(candidate.token);
  finished_.insert(std::ranges::upper_bound(finished_, f.score, std::ranges::greater{}, &Finished::score),
                   std::move(f));
  if (finished_.size() > width()) finished_.pop_back();
}

}  // namespace folio::infer
