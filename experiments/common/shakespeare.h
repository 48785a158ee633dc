// TinyShakespeare with a vocabulary of 65 characters, without <|endoftext|>.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizers/char_tokenizer.h"

namespace folio::experiments {

struct Shakespeare {
  data::CharTokenizer tokenizer;
  int32_t vocab_size = 0;
  std::vector<int32_t> tokens{};  ///< the whole text; the spans in `splits` point into it
  data::Splits splits{};

  explicit Shakespeare(data::CharTokenizer its_tokenizer) : tokenizer(std::move(its_tokenizer)) {}
  Shakespeare(Shakespeare&&) = default;
  Shakespeare& operator=(Shakespeare&&) = default;
  Shakespeare(const Shakespeare&) = delete;  // a copy's splits would point into the original
  Shakespeare& operator=(const Shakespeare&) = delete;
  ~Shakespeare() = default;
};

/// Loads the corpus and splits it with data::split_tokens(). Throws core::Error if it can't be read or downloaded.
[[nodiscard]] Shakespeare load_shakespeare(double validation_fraction = 0.1, double test_fraction = 0.0);

}  // namespace folio::experiments
