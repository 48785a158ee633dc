// Speculation for one sequence: its draft tokens, how many to try, and which were correct. A step draws a token after
// each draft, too, and accepts drafts that equal the tokens drawn. A wrong draft costs one row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

  struct Text {
    std::vector<int32_t>& tokens;     ///< the sequence so far, at least one token; draft() appends the drafts
    size_t first;                     ///< index of the first token in the context
    size_t most;                      ///< maximum number of drafts
    size_t n_misses;                  ///< recent steps without a correct draft; if many, propose only likely drafts
    Sampler& sampler;                 ///< the sampler whose tokens the drafts predict
    std::unique_ptr<Memory>& memory;  ///< the drafter's state for this sequence; null at first
  };

  /// Rows of a sequence that a step computed, without those of wrong drafts.
  struct Computed {
    std::span<const int32_t> tokens;  ///< the sequence so far, longer than the rows
    size_t first;                     ///< index of the first row's token
    std::span<const float> hidden;    ///< (rows, dim): the rows' hidden states behind the final norm
    std::unique_ptr<Memory>& memory;  ///< the drafter's state for this sequence; null at first
  };

  virtual ~Drafter() = default;
  /// Returns true if observe() must be called after each step with rows of sequences that may get drafts.
  [[nodiscard]] virtual bool reads_hidden() const { return false; }
  virtual void observe(std::span<const Computed> /*all*/) {}
  /// Appends drafts to the tokens of each text. `texts` has one entry for each sequence of a step that needs drafts.
  virtual void draft(std::span<const Text> texts) = 0;
};

/// Adapts the number of drafts to how many were correct recently.
class DraftPace {
 public:
  /// Creates a pace of at most `most` drafts per step; 0: no drafts.
  explicit DraftPace(size_t most) : most_(most), n_(most) {}

  [[nodiscard]] size_t n_wanted() const { return pause_ > 0 ? 0 : n_; }
  /// Returns the number of recent steps whose drafts were all wrong, at most 6. A step with a correct draft halves the
  /// number.
  [[nodiscard]] size_t n_misses() const { return misses_; }
  /// Records a step that draws: the number of its drafts, possibly 0, and how many of them were correct.
  void learn(size_t n_drafts, size_t n_right);

 private:
  size_t most_;
  size_t n_;          ///< drafts to try next
  size_t pause_ = 0;  ///< remaining steps without drafts
  size_t misses_ = 0;
};

class Drafts {
 public:
  /// Allows at most `most` drafts per step, and in addition all tokens that structured output forces.
  explicit Drafts(size_t most) : pace_(most) {}

  /// Replaces the drafts by at most `most` tokens that structured output forces after `history`. If further drafts are
  /// wanted, returns the input for a drafter, otherwise nullopt. `first` is the index of the first token in the
  /// context.
  [[nodiscard]] std::optional<Drafter::Text> begin(std::span<const int32_t> history, size_t first, size_t most,
                                                   Sampler& sampler);
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

  [[nodiscard]] size_t n_tried() const { return n_tried_; }
  [[nodiscard]] size_t n_right() const { return n_right_; }

 private:
  DraftPace pace_;
  std::unique_ptr<Drafter::Memory> memory_;
  std::vector<int32_t> tokens_;  ///< the first n_history_ tokens of the history, then the drafts
  size_t n_history_ = 0;
  size_t n_issued_ = 0;
  size_t n_tried_ = 0;  ///< drafts tried in all steps
  size_t n_right_ = 0;
};

}  // namespace folio::infer
