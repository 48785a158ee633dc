// Chooses the number of draft tokens of each sequence in a step to maximize the expected tokens per second, as in
// SmartSpec (Liu et al., "Optimizing Speculative Decoding for Serving Large Language Models Using Goodput", 2024,
// arXiv 2406.14066). Estimates times and acceptance rates from steps that run anyway, and reads no clock.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace folio::infer {

/// Estimates a step's seconds from its number of rows: a fitted line, plus a correction per measured number of rows.
class StepTime {
 public:
  /// Records a step. The line is fitted by least squares; a step's weight is 1 / seconds² and falls by 3 % per step. If
  /// not `in_line`, changes only the correction for `n_rows`, so that unusual numbers of rows don't affect the line.
  void add(size_t n_rows, double seconds, bool in_line = true);
  /// Returns the expected seconds of a step of `n_rows` rows. Before the first add(), every step takes 1 s.
  [[nodiscard]] double operator()(size_t n_rows) const;
  [[nodiscard]] bool measured() const { return weight_ > 0; }
  /// Returns true if `n_rows` rows were measured recently: in one of the last 69 steps, or in several earlier ones.
  [[nodiscard]] bool recent(size_t n_rows) const { return n_rows < offsets_.size() && offsets_[n_rows].weight > 0.5; }

  double fixed = 1.0;    ///< seconds at 0 rows
  double per_row = 0.0;  ///< additional seconds per row

 private:
  struct Offset {
    double weight = 0.0;
    double sum = 0.0;  ///< weighted sum, over steps, of seconds minus the line's value
  };
  double weight_ = 0.0, x_ = 0.0, y_ = 0.0, xx_ = 0.0, xy_ = 0.0;  ///< weighted sums; x: rows, y: seconds
  double spread_ = 0.2;                                            ///< mean relative distance from the expected time
  std::array<Offset, 256> offsets_{};                              ///< corrections of the line, by number of rows
};

/// Estimates the probability that a draft of a sequence is right, separately for the first draft of a step and for
/// drafts after a right one; the two differ most with n-grams. Each estimate is the mean of a Beta distribution with
/// decayed counts. The prior mean is 1/2 for the first draft (Jeffreys' prior) and (1 + 2 first()) / 3 for later ones,
/// and counts as one draft. With an estimate over all sequences, that estimate plus its standard error is the prior
/// mean, and counts as eight drafts: without the error, a few wrong drafts at first could end drafting.
class Acceptance {
 public:
  /// Uses the estimates of `all`, which must outlive this object, as the prior (null: the default prior), and records
  /// each step in `all`, too. `decay` is the factor per step for the counts of earlier steps.
  explicit Acceptance(Acceptance* all = nullptr, double decay = 0.95) : all_(all), decay_(decay) {}

  /// Records a step with `n_drafts` drafts, of which the first `n_right` were right. 0 drafts change nothing.
  void learn(size_t n_drafts, size_t n_right);
  [[nodiscard]] double first() const { return mean(&Acceptance::first_, 0.5); }
  [[nodiscard]] double next() const { return mean(&Acceptance::next_, (1.0 + 2.0 * first()) / 3.0); }
  /// Returns the number of recent steps whose drafts were all wrong, at most 6. A step with a right draft halves it.
  [[nodiscard]] size_t n_misses() const { return n_misses_; }

 private:
  struct Counts {
    double right = 0.0;
    double wrong = 0.0;
    void add(size_t more_right, bool more_wrong, double decay);
    [[nodiscard]] double mean(double prior, double weight) const {
      return (right + weight * prior) / (right + wrong + weight);
    }
  };
  [[nodiscard]] double mean(Counts Acceptance::*counts, double prior) const;

  Acceptance* all_;
  double decay_;  ///< factor per step for the counts of earlier steps
  Counts first_, next_;
  size_t n_misses_ = 0;
};

class Goodput {
 public:
  /// A sequence that may try drafts. k drafts give 1 + first (1 + next + … + next^(k - 1)) expected tokens.
  struct Candidate {
    double first;  ///< probability that the first draft is right
    double next;   ///< probability that a draft is right if the one before it is
    size_t most;   ///< maximum number of drafts
  };

  /// Returns the number of drafts of each sequence, usually best(), for a step that has `n_rows` rows without drafts.
  /// Returns 0 for all sequences if best() would gain less than 2 %, which is within the errors of the estimates. To
  /// keep its estimates current, sometimes returns 1 where best() returns 0, or less than best() for all sequences,
  /// which costs at most 0.5 % of the time.
  [[nodiscard]] std::vector<size_t> choose(std::span<const Candidate> candidates, size_t n_rows);
  /// Records the time that drafting took after the last choose(), and the number of drafts made for each candidate.
  /// `after_pause`: the drafter may have computed tokens of earlier steps, too, so the time is only an upper bound.
  void drafted(std::span<const size_t> n_drafts, double seconds, bool after_pause = false);
  /// Records the seconds of a step that has no prompt rows, excluding the drafter's time.
  void measured(size_t n_rows, double seconds);

  /// Returns the number of drafts of each sequence that maximizes the step's expected tokens per second.
  [[nodiscard]] std::vector<size_t> best(std::span<const Candidate> candidates, size_t n_rows) const;

  /// Sets the time of a step and of a drafter's pass, and ignores measurements from now on. If time.per_row and
  /// `pass_seconds` are 0, drafts cost nothing, so each sequence gets its maximum number.
  void set_times(const StepTime& time, double pass_seconds);
  [[nodiscard]] const StepTime& time() const { return time_; }
  /// Returns the seconds of one pass of the drafter, which drafts one token of each sequence.
  [[nodiscard]] double pass_seconds() const { return pass_seconds_; }
  /// Returns the acceptance rate over all sequences, which is the prior of each sequence's rate.
  [[nodiscard]] Acceptance& acceptance() { return acceptance_; }

 private:
  StepTime time_;
  double pass_seconds_ = 0.0;
  Acceptance acceptance_{nullptr, 0.999};
  bool has_set_times_ = false;
  double credit_ = 0.0;      ///< seconds that may still be lost by trying other numbers of drafts than best()
  size_t shift_ = 0;         ///< to try fewer drafts, choose() divides each number of drafts by 2^shift_
  std::vector<bool> tried_;  ///< true for sequences that try one draft although best() is 0
  bool fewer_ = false;       ///< true if the last choose() returned fewer drafts than best()
  bool again_ = false;       ///< true if the next choose() must try one draft again, to measure a pass of the drafter
};

}  // namespace folio::infer
