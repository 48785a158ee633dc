// Checks of a tokenizer that a fuzz target read from any kind of file.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace folio::fuzz {

/// Checks that the tokenizer's functions return valid results, and that decoding an encoded text gives the text.
void look_at(const data::Tokenizer& tokenizer);

/// Returns true if both tokenizers have the same tokens and encode a sample text equally.
bool same_tokenizer(const data::Tokenizer& a, const data::Tokenizer& b);

/// Writes the tokenizer to a GGUF file, unless to_gguf() rejects it, and checks that reading gives the same tokenizer.
void survives_gguf(const data::Tokenizer& tokenizer);

/// Writes the tokenizer to a directory, unless write_hf() rejects it, and checks that reading gives the same tokenizer.
void survives_hf(const data::Tokenizer& tokenizer);

}  // namespace folio::fuzz
