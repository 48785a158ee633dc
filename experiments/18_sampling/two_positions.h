// Compares truncation at two positions of a text, where the model is certain and uncertain of the next token.
#pragma once

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

/// Reports how many tokens each of `cuts` keeps at a position where the model is certain and at one where it is not.
/// Returns the logits at the uncertain position.
[[nodiscard]] std::vector<float> cut_two_positions(Report& report, infer::Engine& engine,
                                                   const data::Tokenizer& tokenizer, const Text& text,
                                                   const std::vector<Setting>& cuts);

}  // namespace folio::experiments
