// Speculation: draft tokens of one sequence, how many are worth a try, and which of them were right. A step draws a
// token after each draft, too, and a draft that equals the token drawn is kept: so a wrong draft costs a row of a step.
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
  /// What it keeps of a sequence from one step to the next. Gives its place back when it goes.
  class Memory {
   public:
    virtual ~Memory() = default;
  };

  struct Text {
    std::vector<int32_t>& tokens;  ///< all so far, at least one; drafts are appended
    size_t first;                  ///< those before have slid out of the context
    size_t most;                   ///< drafts
    size_t n_misses;               ///< recent tries of which nothing was right: the more, the surer a draft should be
    Sampler& sampler;              ///< draws what the drafts try to be
    std::unique_ptr<Memory>& memory;  ///< null at first; of this drafter alone
  };

  virtual ~Drafter() = default;
  /// Drafts for all sequences of a step.
  virtual void draft(std::span<const Text> texts) = 0;
};

/// How many drafts are worth a try, by the fate of those before.
class DraftPace {
 public:
  /// At most `most` at a time; 0: none.
  explicit DraftPace(size_t most) : most_(most), n_(most) {}

  [[nodiscard]] size_t n_wanted() const { return pause_ > 0 ? 0 : n_; }
  /// Recent tries of which nothing was right.
  [[nodiscard]] size_t n_misses() const { return misses_; }
  /// Called for each step that draws, also if it had no drafts.
  void learn(size_t n_drafts, size_t n_right);

 private:
  size_t most_;
  size_t n_;          ///< drafts to try next
  size_t pause_ = 0;  ///< steps without any
  size_t misses_ = 0;
};

class Drafts {
 public:
  /// Tries at most `most` in a step, and those that the sampler's form forces.
  explicit Drafts(size_t most) : pace_(most) {}

  /// Forgets the drafts so far, and starts new ones after `history`, at most `most`. Returns what a drafter is to
  /// complete, if anything.
  [[nodiscard]] std::optional<Drafter::Text> begin(std::span<const int32_t> history, size_t first, size_t most,
                                                   Sampler& sampler);
  /// Forgets the drafts, and, if the sequence was preempted, what the drafter keeps of it.
  void clear() { tokens_.resize(n_history_); }
  void preempted();

  [[nodiscard]] size_t n() const { return tokens_.size() - n_history_; }
  /// Returns the history and the drafts that are tried in this step, at most `most`.
  [[nodiscard]] std::span<const int32_t> issue(size_t most, FormMask* form);
  [[nodiscard]] size_t n_issued() const { return n_issued_; }
  [[nodiscard]] int32_t operator[](size_t i) const { return tokens_[n_history_ + i]; }
  /// Of those that were issued, the first `n_right` were right.
  void learn(size_t n_right);

  [[nodiscard]] size_t n_tried() const { return n_tried_; }
  [[nodiscard]] size_t n_right() const { return n_right_; }

 private:
  DraftPace pace_;
  std::unique_ptr<Drafter::Memory> memory_;
  std::vector<int32_t> tokens_;  ///< the first n_history_ tokens of the history, then the drafts
  size_t n_history_ = 0;
  size_t n_issued_ = 0;
  size_t n_tried_ = 0;  ///< in all steps
  size_t n_right_ = 0;
};

}  // namespace folio::infer
