// A text that the model in training writes, to look at beside its loss.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "modules/llama.h"

namespace folio::train {

/// At most `tokens` tokens after the tokenizer's default prompt, by the engine with its usual options and a fixed seed,
/// so that two samples differ by their models alone. Neither the model nor a random state of training is changed.
[[nodiscard]] std::string sample_text(const nn::Llama& model, const data::Tokenizer& tokenizer, int64_t tokens);

}  // namespace folio::train
