// The base class of tokenizers with a vocabulary. Implements special tokens, added tokens and the lookup of IDs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data {

/// A tokenizer with a vocabulary of type V, derived from Vocabulary. Subclasses override encode() or encode_pieces().
template <typename V>
class VocabularyTokenizer : public Tokenizer {
 public:
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override {
    return encode_pieces(std::array<PromptPiece, 1>{{{.text = text}}});
  }
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return special_; }
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override { return beginning_of(vocabulary_); }
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(vocabulary_.pieces.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return vocabulary_.eos; }
  [[nodiscard]] int32_t bos() const override { return vocabulary_.bos; }
  [[nodiscard]] bool ends_text(int32_t id) const override {
    return is_end(id) || (id >= 0 && id < vocab_size() && ends_text_[static_cast<size_t>(id)]);
  }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {begin_of_text()}; }
  [[nodiscard]] const V& vocabulary() const { return vocabulary_; }

 protected:
  explicit VocabularyTokenizer(V vocabulary) : vocabulary_(std::move(vocabulary)) {}

  /// Indexes the special and added tokens of the vocabulary, which must be valid. Subclass constructors must call it.
  void index_tokens(Normalization normalization = {}) {
    std::vector<SpecialToken> special;
    for (size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!is_special(vocabulary_.types[i])) continue;
      special.push_back({.text = vocabulary_.pieces[i], .id = id, .flags = flags_of(vocabulary_, id)});
    }
    special_ = SpecialTokens(std::move(special));
    added_ = AddedTokens(vocabulary_, std::move(normalization));
    ends_text_ = ends_of_text(vocabulary_);
  }

  /// Returns a token's ID as an index into lists with one element per token. Throws core::Error if it is out of range.
  [[nodiscard]] size_t index_of(int32_t id) const {
    core::require(id >= 0 && id < vocab_size(), "token {} is outside the vocabulary of {}", id, vocab_size());
    return static_cast<size_t>(id);
  }

  V vocabulary_;
  AddedTokens added_;

 private:
  SpecialTokens special_;
  std::vector<bool> ends_text_;
};

}  // namespace folio::data
