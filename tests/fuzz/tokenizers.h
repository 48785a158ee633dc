// Laws of a tokenizer, whatever file it came from.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace folio::fuzz {

/// Every function has a valid result, and decoding an encoded text gives the text.
void look_at(const data::Tokenizer& tokenizer);

/// Both have the same tokens, and encode the same.
bool same_tokenizer(const data::Tokenizer& a, const data::Tokenizer& b);

/// Unless to_gguf refuses, a GGUF file of the tokenizer can be written, and is read back as the same tokenizer.
void survives_gguf(const data::Tokenizer& tokenizer);

/// The same for a Hugging Face directory.
void survives_hf(const data::Tokenizer& tokenizer);

}  // namespace folio::fuzz
