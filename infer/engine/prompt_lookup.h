// Drafts from the text itself: what followed the last few tokens when they were there before. Saxena, "Prompt Lookup
// Decoding", 2023; the same as llama.cpp's lookup example. A draft that is wrong costs a row of a step and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace folio::infer {

class PromptLookup {
 public:
  /// At most `most` drafts at a time; 0: none.
  explicit PromptLookup(size_t most) : most_(most), n_(most) {}

  /// How many drafts are worth a try, by what became of those before.
  [[nodiscard]] size_t n_wanted() const { return pause_ > 0 ? 0 : n_; }
  /// The tokens after the latest earlier place of the text's last three tokens, or two, as if the text went round from
  /// there on: `most` of them, or none.
  [[nodiscard]] std::vector<int32_t> drafts(std::span<const int32_t> text, size_t most) const;
  /// Of the drafts of a step so many were right. Called for each step that draws, also if it had none.
  void learn(size_t n_drafts, size_t n_right);

 private:
  size_t most_;
  size_t n_;           ///< drafts to try next
  size_t pause_ = 0;   ///< steps without any
  size_t misses_ = 0;  ///< tries in a row of which nothing was right
};

}  // namespace folio::infer
