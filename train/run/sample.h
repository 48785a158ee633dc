// A completion by the model in training, for the log.
#pragma once

#include <cstdint>
#include <string>

#include "core/adapter.h"
#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "train/step/dataset.h"

namespace folio::train {

/// At most `tokens` tokens after the prompt, by the engine, and prompt.before: two samples of one prompt differ by
/// their models alone. `adapter` may be null. Changes neither the model nor a random state of training.
[[nodiscard]] std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter,
                                      const data::Tokenizer& tokenizer, const SamplePrompt& prompt, int64_t tokens);

}  // namespace folio::train
