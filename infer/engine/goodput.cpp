#include "infer/engine/goodput.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace folio::infer {
namespace {

constexpr double kStepDecay = 0.97;    // factor per step for the weights of earlier steps in the line fit
constexpr double kOffsetDecay = 0.99;  // factor per step for the weights of earlier steps in offsets_
constexpr double kExceptions = 0.005;  // maximum fraction of time lost by trying other numbers of drafts than best()
constexpr double kRowsOfAStep = 8.0;   // initial estimate: a step's fixed time equals the time of this many rows
constexpr double kLeastSpread = 0.02;
constexpr double kLeastGain = 0.02;  // choose() doesn't draft for a smaller gain in tokens per second

// Returns the number of rows and the expected tokens of a step with `n_rows` rows and lengths[i] drafts of candidate i.
std::pair<size_t, double> expected(std::span<const Goodput::Candidate> candidates, std::span<const size_t> lengths,
                                   size_t n_rows) {
  auto tokens = static_cast<double>(n_rows);
  for (size_t i = 0; i < candidates.size(); ++i) {
    n_rows += lengths[i];
    double gain = candidates[i].first;
    for (size_t d = 0; d < lengths[i]; ++d, gain *= candidates[i].next) tokens += gain;
  }
  return {n_rows, tokens};
}

}  // namespace

// Limits a step's deviation from the expected time to three times the mean deviation. So one slow step on a busy
// machine has little effect; a lasting change increases the mean deviation and is learned within some 100 steps. The
// term w / 2, where w is the step's weight, keeps the slope from drifting if all steps have the same number of rows.
void StepTime::add(size_t n_rows, double seconds, bool in_line) {
  const auto rows = static_cast<double>(n_rows);
  seconds = std::max(seconds, 1e-9);
  const double w = 1.0 / (seconds * seconds);
  if (measured()) {
    const double expected = (*this)(n_rows);
    const double most = 3.0 * spread_ * expected;
    const double off = std::clamp(seconds - expected, -std::min(most, expected / 2), most);
    spread_ = std::max(kLeastSpread, spread_ + 0.05 * (std::abs(off) / expected - spread_));
    seconds = expected + off;
  } else {
    per_row = seconds / (rows + kRowsOfAStep);
  }
  if (in_line) {
    for (double* sum : {&weight_, &x_, &y_, &xx_, &xy_}) *sum *= kStepDecay;
    weight_ += w;
    x_ += w * rows;
    y_ += w * seconds;
    xx_ += w * rows * rows;
    xy_ += w * rows * seconds;
    const double variance = std::max(0.0, xx_ - x_ * x_ / weight_);
    per_row = std::clamp((xy_ - x_ * y_ / weight_ + w / 2 * per_row) / (variance + w / 2), 0.0, y_ / x_);
    fixed = (y_ - per_row * x_) / weight_;
  }
  for (Offset& offset : offsets_) {
    offset.weight *= kOffsetDecay;
    offset.sum *= kOffsetDecay;
  }
  if (n_rows >= offsets_.size()) return;
  offsets_[n_rows].weight += 1.0;
  offsets_[n_rows].sum += seconds - (fixed + per_row * rows);
}

double StepTime::operator()(size_t n_rows) const {
  const Offset offset = n_rows < offsets_.size() ? offsets_[n_rows] : Offset{};
  const double on_line = fixed + per_row * static_cast<double>(n_rows);
  return std::max(on_line + offset.sum / (offset.weight + 0.25), on_line / 2);
}

void Acceptance::Counts::add(size_t more_right, bool more_wrong, double decay) {
  right = right * decay + static_cast<double>(more_right);
  wrong = wrong * decay + (more_wrong ? 1.0 : 0.0);
}

double Acceptance::mean(Counts Acceptance::*counts, double prior) const {
  const Counts& own = this->*counts;
  if (all_ == nullptr) return own.mean(prior, 1.0);
  const Counts& all = all_->*counts;
  const double error = 0.5 / std::sqrt(all.right + all.wrong + 1.0);
  return own.mean(std::min(1.0, all_->mean(counts, prior) + error), 8.0);
}

void Acceptance::learn(size_t n_drafts, size_t n_right) {
  if (n_drafts == 0) return;
  if (all_ != nullptr) all_->learn(n_drafts, n_right);
  n_misses_ = n_right > 0 ? n_misses_ / 2 : std::min<size_t>(n_misses_ + 1, 6);
  first_.add(n_right > 0 ? 1 : 0, n_right == 0, decay_);
  next_.add(n_right > 0 ? n_right - 1 : 0, n_right > 0 && n_right < n_drafts, decay_);
}

// Draft j of a sequence adds first · next^(j - 1) expected tokens, which never increases with j. So the best r drafts
// with at most `depth` per sequence are those with the r largest gains, and they are leading drafts of their sequences.
// The step's time depends only on r and, because of the drafter's passes, on `depth`. Trying all r and depths therefore
// finds the optimum for any step time, convex or not.
std::vector<size_t> Goodput::best(std::span<const Candidate> candidates, size_t n_rows) const {
  struct Gain {
    double tokens;
    size_t depth;
    size_t candidate;
  };
  std::vector<Gain> gains;
  size_t deepest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    double tokens = candidates[i].first;
    deepest = std::max(deepest, candidates[i].most);
    for (size_t depth = 1; depth <= candidates[i].most; ++depth, tokens *= candidates[i].next)
      gains.push_back({tokens, depth, i});
  }
  std::ranges::stable_sort(gains, [](const Gain& a, const Gain& b) { return a.tokens > b.tokens; });
  size_t best_n = 0;
  size_t best_depth = 0;
  double best_rate = static_cast<double>(n_rows) / time_(n_rows);
  for (size_t depth = pass_seconds_ > 0.0 ? 1 : deepest; depth <= deepest && depth > 0; ++depth) {
    const double drafting = pass_seconds_ * static_cast<double>(depth);
    double tokens = static_cast<double>(n_rows);
    size_t n = 0;
    for (const Gain& gain : gains) {
      if (gain.depth > depth) continue;
      tokens += gain.tokens;
      const double rate = tokens / (time_(n_rows + ++n) + drafting);
      if (rate >= best_rate) std::tie(best_rate, best_n, best_depth) = std::tuple(rate, n, depth);
    }
  }
  std::vector<size_t> lengths(candidates.size(), 0);
  for (const Gain& gain : gains) {
    if (gain.depth > best_depth) continue;
    if (best_n-- == 0) break;
    ++lengths[gain.candidate];
  }
  return lengths;
}

// To keep the estimates current, a sequence for which best() returns 0 drafts sometimes tries one. If there is no such
// sequence, all numbers of drafts are sometimes divided by 2, 4, …, to measure steps with fewer rows.
std::vector<size_t> Goodput::choose(std::span<const Candidate> candidates, size_t n_rows) {
  tried_.assign(candidates.size(), false);
  fewer_ = false;
  // No drafts until a step without drafts was measured.
  if (!time_.measured() && !has_set_times_) return std::vector<size_t>(candidates.size());
  std::vector<size_t> lengths = best(candidates, n_rows);
  if (has_set_times_ || lengths.empty()) return lengths;
  const auto [n, tokens] = expected(candidates, lengths, n_rows);
  const double drafting = pass_seconds_ * static_cast<double>(std::ranges::max(lengths));
  const double gain = tokens / static_cast<double>(n_rows) * time_(n_rows) / (time_(n) + drafting);
  if (gain < 1.0 + kLeastGain) std::ranges::fill(lengths, 0);
  const bool again = std::exchange(again_, false);
  if (credit_ < 0.0 && !again) return lengths;
  for (size_t i = 0; i < candidates.size(); ++i) {
    tried_[i] = lengths[i] == 0 && candidates[i].most > 0;
    if (tried_[i]) lengths[i] = 1;
  }
  if (credit_ < 0.0 || std::ranges::find(tried_, true) != tried_.end()) return lengths;
  shift_ = shift_ % 4 + 1;
  std::vector<size_t> fewer = lengths;
  for (size_t& length : fewer) length >>= shift_;
  const auto [n_fewer, tokens_fewer] = expected(candidates, fewer, n_rows);
  if (n_fewer == n || time_.recent(n_fewer)) return lengths;
  credit_ -= std::max(0.0, time_(n_fewer) - time_(n) * tokens_fewer / tokens);
  fewer_ = true;
  return fewer;
}

// Estimates the time of a pass as the minimum over recent calls. The estimate rises by at most 5 % per call, and not by
// calls that also compute the tokens of a pause. After such a call, choose() tries a draft in the next step, too.
void Goodput::drafted(std::span<const size_t> n_drafts, double seconds, bool after_pause) {
  if (has_set_times_ || n_drafts.empty()) return;
  const size_t passes = std::ranges::max(n_drafts);
  if (passes == 0) return;
  const double each = seconds / static_cast<double>(passes);
  pass_seconds_ = pass_seconds_ == 0.0 ? each : std::min(each, (after_pause ? 1.0 : 1.05) * pass_seconds_);
  size_t n_tried = 0;
  size_t n = 0;
  for (size_t i = 0; i < n_drafts.size(); ++i) {
    n += n_drafts[i];
    if (tried_[i]) n_tried += n_drafts[i];
  }
  credit_ -= time_.per_row * static_cast<double>(n_tried) + (n_tried == n ? seconds : 0.0);
  again_ = after_pause && n_tried == n && each > kLeastGain * time_.fixed;
}

void Goodput::measured(size_t n_rows, double seconds) {
  if (has_set_times_) return;
  time_.add(n_rows, seconds, !fewer_);
  credit_ = std::min(credit_ + kExceptions * seconds, seconds);
}

void Goodput::set_times(const StepTime& time, double pass_seconds) {
  has_set_times_ = true;
  time_ = time;
  pass_seconds_ = pass_seconds;
}

}  // namespace folio::infer
