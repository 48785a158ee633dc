// Drafts from the sequence itself: the tokens that followed an earlier occurrence of its last tokens. Saxena, "Prompt
// Lookup Decoding", 2023; llama.cpp's lookup example does the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/engine/drafts.h"

namespace folio::infer {

class PromptLookup final : public Drafter {
 public:
  void draft(std::span<const Input> inputs) override;

  /// Finds the latest earlier occurrence of the text's last n tokens, trying n = max(3, least) down to `least`. Returns
  /// the `most` tokens after it, repeated if fewer follow, or an empty list if there is no occurrence.
  [[nodiscard]] static std::vector<int32_t> drafts(std::span<const int32_t> text, size_t most, size_t least = 2);
};

}  // namespace folio::infer
