// One sure and one unsure position of a text, and what each cut leaves of their distributions.
#pragma once

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

/// Shows them in a table and a picture, and claims what the cuts differ in. Returns the logits of the unsure one.
[[nodiscard]] std::vector<float> cut_two_positions(Report& report, infer::Engine& engine,
                                                   const data::Tokenizer& tokenizer, const Text& text,
                                                   const std::vector<Setting>& cuts);

}  // namespace folio::experiments
