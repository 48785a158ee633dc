// Beam search: each step extends every beam by its likeliest next tokens and keeps the most likely of all these
// candidates. Tokens, scores and order of the results equal those of transformers' generate(num_beams=…,
// do_sample=False), as tests/apps/beams_test.py checks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/engine/policy.h"
#include "infer/sampling/ranking.h"

namespace folio::infer {

/// The condition under which a search ends once `width` sequences have ended, named as in Hugging Face transformers.
enum class EarlyStopping : uint8_t {
  False,  ///< ends if no running beam's score at its current length exceeds the worst score of the ended sequences
  True,   ///< ends as soon as `width` sequences have ended
  Never   ///< ends if no running beam can exceed the worst score of the ended sequences at any length
};

struct BeamOptions {
  int64_t width = 0;            ///< number of beams; 0: tokens are sampled
  double length_penalty = 1.0;  ///< score = ln p / (number of tokens) ^ length_penalty
  EarlyStopping early_stopping = EarlyStopping::False;
};

inline constexpr int64_t kMostBeams = 64;
inline constexpr double kMostLengthPenalty = 10.0;  ///< length_penalty is in [-10, 10]

class Beams final : public Policy {
 public:
  /// Creates a search for sequences of 1 to `max_tokens` tokens. Throws core::Error if an option is out of range.
  Beams(const BeamOptions& options, size_t max_tokens);

  [[nodiscard]] std::vector<Continuation> decide(std::span<const SequenceState> beams) override;

 private:
  struct Candidate {
    size_t beam;
    int32_t token;
    double log_prob;  ///< log-probability of all tokens after the prompt, including this one
    bool ends;
  };

  void find_candidates(size_t beam, const SequenceState& state, std::vector<Candidate>& candidates);
  [[nodiscard]] double score(double log_prob, size_t n_tokens) const;
  [[nodiscard]] bool is_done() const;

  BeamOptions options_;
  size_t width_;
  size_t max_tokens_;
  size_t n_tokens_ = 0;                    ///< tokens generated so far, equal for all beams
  std::vector<double> log_probs_ = {0.0};  ///< log-probabilities of the beams, most likely first
  std::vector<double> best_;               ///< scores of the best ended sequences, best first, at most width_
  Ranking ranking_;
};

}  // namespace folio::infer
