// Laws of a tokenizer, whatever file it came from.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace folio::fuzz {

/// All that can be asked has a sound answer, and a text that is encoded and decoded comes back.
void look_at(const data::Tokenizer& tokenizer);

/// Both have the same tokens, and encode the same.
bool same_tokenizer(const data::Tokenizer& a, const data::Tokenizer& b);

/// A GGUF file that holds the tokenizer can be written, unless to_gguf refuses, and has the same tokenizer.
void survives_gguf(const data::Tokenizer& tokenizer);

/// The same for a Hugging Face directory.
void survives_hf(const data::Tokenizer& tokenizer);

}  // namespace folio::fuzz
