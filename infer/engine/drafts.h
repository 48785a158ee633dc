// Speculative decoding of one sequence: its draft tokens, and how many were correct. A step also draws a token after
// each draft, and accepts drafts that equal the tokens drawn at their positions. A wrong draft costs one row. goodput.h
// chooses the number of drafts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/engine/goodput.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

/// A source of draft tokens.
class Drafter {
 public:
  /// State that a drafter keeps for a sequence between steps. Its destructor releases the state.
  class Memory {
   public:
    virtual ~Memory() = default;
  };

  struct Input {
    std::vector<int32_t>& tokens;     ///< the sequence so far, at least one token; draft() appends the drafts
    size_t first;                     ///< index in `tokens` of the first token that is in the context
    size_t most;                      ///< maximum number of drafts
    size_t n_misses;                  ///< recent steps without a correct draft; if many, propose only likely drafts
    bool after_pause = false;         ///< no drafts were requested in the step before: earlier tokens may be new
    Sampler& sampler;                 ///< the sampler whose tokens the drafts predict
    std::unique_ptr<Memory>& memory;  ///< the drafter's state for this sequence; null at first
  };

  /// Rows of a sequence that a step computed, without those of wrong drafts.
  struct Computed {
    std::span<const int32_t> tokens;  ///< the sequence so far, with at least one token after the rows
    size_t begin;                     ///< index in `tokens` of the first token that is in the context
    size_t first;                     ///< index in `tokens` of the first row's token
    std::span<const float> hidden;    ///< (rows, dim): the rows' hidden states after the final norm
    std::unique_ptr<Memory>& memory;  ///< the drafter's state for this sequence; null at first
  };

  virtual ~Drafter() = default;
  /// Returns true if the drafter needs hidden states: observe() must then be called after each step, with the rows of
  /// sequences that may get drafts.
  [[nodiscard]] virtual bool reads_hidden() const { return false; }
  virtual void observe(std::span<const Computed> /*all*/) {}
  /// Appends at most `most` drafts to the `tokens` of each input. `inputs` has one entry for each sequence that needs
  /// drafts in the next step.
  virtual void draft(std::span<const Input> inputs) = 0;
};

class Drafts {
 public:
  static constexpr size_t kStepsToRest = 32;

  /// Allows at most `most` drafts per step, and in addition all tokens that structured output forces. `all`, if
  /// not null, is the acceptance rate over all sequences, which is the prior of this sequence's rate.
  Drafts(size_t most, Acceptance* all) : most_(most), acceptance_(all) {}

  /// Returns the acceptance probabilities and the maximum number of drafts, at most `most`, for Goodput::choose().
  [[nodiscard]] Goodput::Candidate candidate(size_t most) const {
    return {.first = acceptance_.first(), .next = acceptance_.next(), .most = std::min(most, most_)};
  }
  /// Replaces the drafts by at most `most` tokens that structured output forces after `history`. If these are fewer
  /// than `n_wanted`, returns the input for a drafter, otherwise nullopt. `first` is the index of the first token in
  /// the context.
  [[nodiscard]] std::optional<Drafter::Input> begin(std::span<const int32_t> history, size_t first, size_t most,
                                                    size_t n_wanted, Sampler& sampler);
  /// Returns true if drafts currently do not increase speed, so that the next step may be issued before the token of
  /// the step in flight is read. Returns false after 32 calls of ran_ahead(), so that drafts are tried again.
  [[nodiscard]] bool can_wait() const { return n_issued_ == 0 && (n_idle_ > 0 || n_misses() > 3) && n_ahead_ < 32; }
  void ran_ahead() { ++n_ahead_; }
  /// Returns true if no drafts were requested for kStepsToRest steps, so that a drafter need not observe the sequence.
  /// After such a pause, the drafter may have no drafts at first.
  [[nodiscard]] bool rest() const { return n_idle_ >= kStepsToRest; }
  /// Discards the drafts; preempted() also discards the drafter's state for the sequence.
  void clear() { tokens_.resize(n_history_); }
  void preempted();

  [[nodiscard]] std::unique_ptr<Drafter::Memory>& memory() { return memory_; }

  [[nodiscard]] size_t n() const { return tokens_.size() - n_history_; }
  /// Returns the history followed by the drafts that this step verifies: at most `most`, ending before the first that
  /// `form` does not allow. A null `form` allows all tokens.
  [[nodiscard]] std::span<const int32_t> issue(size_t most, FormMask* form);
  [[nodiscard]] size_t n_issued() const { return n_issued_; }
  [[nodiscard]] int32_t operator[](size_t i) const { return tokens_[n_history_ + i]; }
  /// Records that the first `n_right` of the issued drafts were correct.
  void learn(size_t n_right);

  [[nodiscard]] size_t n_misses() const { return acceptance_.n_misses(); }
  [[nodiscard]] size_t n_tried() const { return n_tried_; }
  [[nodiscard]] size_t n_right() const { return n_right_; }

 private:
  size_t most_;
  Acceptance acceptance_;
  std::unique_ptr<Drafter::Memory> memory_;
  std::vector<int32_t> tokens_;  ///< the first n_history_ tokens of the history, then the drafts
  size_t n_history_ = 0;
  size_t n_forced_ = 0;  ///< number of leading drafts that structured output forces
  size_t n_issued_ = 0;
  size_t n_ahead_ = 0;  ///< calls of ran_ahead() since the last begin()
  size_t n_idle_ = 0;   ///< calls of begin() since the last one that requested drafts
  size_t n_tried_ = 0;  ///< drafts tried in all steps
  size_t n_right_ = 0;
};

}  // namespace folio::infer
