// Properties of a tokenizer, for any source file.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace folio::fuzz {

/// Checks that every function returns a valid result, and that decoding an encoded text reproduces it.
void look_at(const data::Tokenizer& tokenizer);

/// Returns true if both have the same tokens and encode equally.
bool same_tokenizer(const data::Tokenizer& a, const data::Tokenizer& b);

/// Checks that a GGUF file of the tokenizer, unless to_gguf rejects it, is read back as the same tokenizer.
void survives_gguf(const data::Tokenizer& tokenizer);

/// Checks the same for a Hugging Face directory.
void survives_hf(const data::Tokenizer& tokenizer);

}  // namespace folio::fuzz
