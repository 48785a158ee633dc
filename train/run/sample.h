// A text that the model in training writes, to look at beside its loss.
#pragma once

#include <cstdint>
#include <string>

#include "core/adapter.h"
#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "train/step/dataset.h"

namespace folio::train {

/// At most `tokens` tokens behind the prompt, by the engine, and what stands before them: two samples of one prompt
/// differ by their models alone. `adapter` may be null. Neither the model nor a random state of training is changed.
[[nodiscard]] std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter,
                                      const data::Tokenizer& tokenizer, const SamplePrompt& prompt, int64_t tokens);

}  // namespace folio::train
