// Where drafts come from: tokens that may come next. A step draws a token after each of them, too, and a draft that
// equals the token drawn is kept. So a draft that is wrong costs a row of a step and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "infer/sampling/sampler.h"

namespace folio::infer {

class Drafter {
 public:
  /// What it keeps of a text from one step to the next. Gives its place back when it goes.
  class Memory {
   public:
    virtual ~Memory() = default;
  };

  struct Text {
    std::vector<int32_t>& tokens;     ///< all so far, of which one at least; drafts are appended
    size_t first;                     ///< those before are not in the context any more
    size_t most;                      ///< drafts
    size_t n_misses;                  ///< tries that were wrong lately: the more, the surer a draft should be
    Sampler& sampler;                 ///< draws what the drafts try to be
    std::unique_ptr<Memory>& memory;  ///< null at first; of this drafter alone
  };

  virtual ~Drafter() = default;
  /// Drafts for all texts of a step.
  virtual void draft(std::span<const Text> texts) = 0;
};

/// How many drafts of a text are worth a try, by what became of those before.
class DraftPace {
 public:
  /// At most `most` at a time; 0: none.
  explicit DraftPace(size_t most) : most_(most), n_(most) {}

  [[nodiscard]] size_t n_wanted() const { return pause_ > 0 ? 0 : n_; }
  /// Tries of which nothing was right, lately.
  [[nodiscard]] size_t n_misses() const { return misses_; }
  /// Of the drafts of a step so many were right. Called for each step that draws, also if it had none.
  void learn(size_t n_drafts, size_t n_right);

 private:
  size_t most_;
  size_t n_;          ///< drafts to try next
  size_t pause_ = 0;  ///< steps without any
  size_t misses_ = 0;
};

}  // namespace folio::infer
