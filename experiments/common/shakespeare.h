// TinyShakespeare as the experiments use it: 65 characters and no <|endoftext|>, since no model here is exported.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizers/char_tokenizer.h"

namespace folio::experiments {

struct Shakespeare {
  data::CharTokenizer tokenizer;
  int32_t vocab_size = 0;
  std::vector<int32_t> tokens{};  ///< the whole text; moving it keeps the spans below valid
  data::Splits splits{};

  explicit Shakespeare(data::CharTokenizer its_tokenizer) : tokenizer(std::move(its_tokenizer)) {}
  Shakespeare(Shakespeare&&) = default;
  Shakespeare& operator=(Shakespeare&&) = default;
  Shakespeare(const Shakespeare&) = delete;  // a copy's splits would point into the original
  Shakespeare& operator=(const Shakespeare&) = delete;
  ~Shakespeare() = default;
};

/// Splits as in data::split_tokens. Throws core::Error if the corpus can't be had.
[[nodiscard]] Shakespeare load_shakespeare(double validation_fraction = 0.1, double test_fraction = 0.0);

}  // namespace folio::experiments
