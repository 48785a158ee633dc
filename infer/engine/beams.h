// Beam search: the most likely sequences are followed; each of their next tokens makes a candidate, and of all
// candidates the most likely continue. As in transformers' generate(num_beams=…, do_sample=False), to the order of the
// results: tests/apps/beams_test.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/engine/policy.h"
#include "infer/sampling/ranking.h"

namespace folio::infer {

/// When a search ends, once as many sequences have ended as it follows. The names are transformers'.
enum class EarlyStopping : uint8_t {
  False,  ///< when no sequence that continues would be better if it ended now
  True,   ///< at once
  Never   ///< when none can become better, however long it gets
};

struct BeamOptions {
  int64_t width = 0;            ///< sequences that are followed; 0: no search, tokens are sampled
  double length_penalty = 1.0;  ///< the score is ln p over the number of tokens to this power
  EarlyStopping early_stopping = EarlyStopping::False;
};

inline constexpr int64_t kMostBeams = 64;
inline constexpr double kMostLengthPenalty = 10.0;  ///< and the least is its negative

class Beams final : public Policy {
 public:
  /// A sequence has at most `max_tokens` tokens, at least 1. Throws core::Error if an option is out of its range.
  Beams(const BeamOptions& options, size_t max_tokens);

  [[nodiscard]] std::vector<Continuation> decide(std::span<const SequenceState> beams) override;

 private:
  struct Candidate {
    size_t beam;
    int32_t token;
    double log_prob;  ///< of all tokens after the prompt, with this one
    bool ends;
  };

  void find_candidates(size_t beam, const SequenceState& state, std::vector<Candidate>& candidates);
  [[nodiscard]] double score(double log_prob, size_t n_tokens) const;
  [[nodiscard]] bool is_done() const;

  BeamOptions options_;
  size_t width_;
  size_t max_tokens_;
  size_t n_tokens_ = 0;                    ///< of every beam
  std::vector<double> log_probs_ = {0.0};  ///< of the beams, the most likely first
  std::vector<double> best_;               ///< scores of sequences that have ended, the best first, at most width_
  Ranking ranking_;
};

}  // namespace folio::infer
