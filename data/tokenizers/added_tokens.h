// Separates special and user-defined tokens from the text around them before it is encoded. Source: AddedVocabulary in
// https://github.com/huggingface/tokenizers/blob/main/tokenizers/src/tokenizer/added_vocabulary.rs
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/special_tokens.h"

namespace folio::data {

struct Vocabulary;

/// Returns the length in bytes of the white space at the beginning of `text`.
[[nodiscard]] size_t spaces_at_begin(std::string_view text);

/// A piece of text. With `parse_special`, special tokens in it are recognized.
struct PromptPiece {
  std::string_view text;
  bool parse_special = false;
};

/// A normalization of text, applied before the search for tokens with TokenFlags::normalized.
struct Normalization {
  std::string prepend{};                               ///< inserted before each stretch of text between tokens
  std::function<std::string(std::string_view)> map{};  ///< null: text is not normalized, and `prepend` is not used
};

/// Normalized text, cut into tokens and stretches of text, in order.
struct CutText {
  struct Part {
    int32_t id = -1;  ///< the token, or -1 for a stretch of text: bytes [begin, begin + size) of `text`
    size_t begin = 0;
    size_t size = 0;
    bool is_first = false;  ///< true for a stretch at the beginning of the whole text
  };
  std::string text;
  std::vector<Part> parts;

  [[nodiscard]] std::string_view stretch(const Part& part) const {
    return std::string_view(text).substr(part.begin, part.size);
  }
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Searches for the control, unknown and user-defined pieces of a vocabulary. Applies `normalization` before the
  /// search for those with TokenFlags::normalized.
  AddedTokens(const Vocabulary& vocabulary, Normalization normalization);
  /// Searches for `tokens`, without normalizing the text first.
  explicit AddedTokens(SpecialTokens tokens) : plain_(std::move(tokens)) {}

  /// Cuts the concatenated pieces at tokens: first at tokens that match unnormalized text, then, in the normalized text
  /// between them, at the other tokens. The leftmost match wins, then the longest. Special tokens are recognized only
  /// within a piece with `parse_special`; elsewhere their text is ordinary and not searched for shorter tokens.
  [[nodiscard]] CutText cut(std::span<const PromptPiece> pieces) const;

 private:
  // A range of text, from the end of the previous zone to `end`.
  struct Zone {
    size_t end;
    bool parse_special;
  };
  struct ZonedText {
    std::string_view text{};
    std::vector<Zone> zones{};
  };

  /// Normalizes from.text in the range [begin, end), and returns the result with its zones. `own` stores the normalized
  /// text and must outlive the result. It is unused if nothing is normalized.
  [[nodiscard]] ZonedText normalized(const ZonedText& from, size_t begin, size_t end, std::string& own) const;
  template <typename Between, typename Found>
  static void find(const SpecialTokens& tokens, const ZonedText& in, Between&& between, Found&& found);

  Normalization normalization_;
  SpecialTokens plain_;
  SpecialTokens normalized_;
};

}  // namespace folio::data
