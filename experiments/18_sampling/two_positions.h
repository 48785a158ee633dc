// Truncates the distributions at two positions of a text, one certain and one uncertain.
#pragma once

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

/// Prints, draws and checks what each truncation keeps at both positions. Returns the logits of the uncertain position.
[[nodiscard]] std::vector<float> cut_two_positions(Report& report, infer::Engine& engine,
                                                   const data::Tokenizer& tokenizer, const Text& text,
                                                   const std::vector<Setting>& cuts);

}  // namespace folio::experiments
