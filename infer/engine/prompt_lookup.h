// Drafts from the text itself: what followed the last few tokens when they were there before. Saxena, "Prompt Lookup
// Decoding", 2023; the same as llama.cpp's lookup example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/engine/drafts.h"

namespace folio::infer {

class PromptLookup final : public Drafter {
 public:
  void draft(std::span<const Text> texts) override;

  /// The tokens after the latest earlier place of the text's last `least` tokens, at least two, or of the last three if
  /// there is one, as if the text went round from there on: `most` of them, or none.
  [[nodiscard]] static std::vector<int32_t> drafts(std::span<const int32_t> text, size_t most, size_t least = 2);
};

}  // namespace folio::infer
