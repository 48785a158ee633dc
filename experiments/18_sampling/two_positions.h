// Truncates the distributions at two positions of a text, one certain and one uncertain.
#pragma once

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

/// Reports what each of `cuts` keeps at one certain and one uncertain position. Returns the uncertain one's logits.
[[nodiscard]] std::vector<float> cut_two_positions(Report& report, infer::Engine& engine,
                                                   const data::Tokenizer& tokenizer, const Text& text,
                                                   const std::vector<Setting>& cuts);

}  // namespace folio::experiments
