// Cuts special and user-defined tokens out of a text before it is encoded. Source: AddedVocabulary in
// https://github.com/huggingface/tokenizers/blob/main/tokenizers/src/tokenizer/added_vocabulary.rs
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/special_tokens.h"

namespace folio::data {

struct Vocabulary;

/// The bytes of the white space that `text` begins with.
[[nodiscard]] size_t spaces_at_begin(std::string_view text);

/// A part of a text, and whether special tokens are looked for in it.
struct TextPiece {
  std::string_view text;
  bool parse_special = false;
};

/// What happens to the text between tokens before normalized tokens are looked for in it.
struct Normalization {
  std::string prepend{};                               ///< before each stretch
  std::function<std::string(std::string_view)> map{};  ///< null: none
};

/// Normalized text, and the tokens and stretches of it in their order.
struct CutText {
  struct Part {
    int32_t id = -1;  ///< -1: a stretch, of the bytes [begin, begin + size) of `text`
    size_t begin = 0;
    size_t size = 0;
    bool is_first = false;  ///< begins the whole text
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
  /// The control, unknown and user-defined pieces of a vocabulary, which are plain text.
  AddedTokens(const Vocabulary& vocabulary, Normalization normalization);

  /// Cuts the concatenated pieces: first at the tokens that are not normalized, then the normalized text between them
  /// at the others; each time the leftmost match, then the longest, is taken. A special token is one only where it lies
  /// within a piece with `parse_special`; elsewhere in a piece its text is not searched for other tokens.
  [[nodiscard]] CutText cut(std::span<const TextPiece> pieces) const;

 private:
  // A text whose zones end at `end` and parse special tokens or not.
  struct Zone {
    size_t end;
    bool parse_special;
  };
  struct ZonedText {
    std::string_view text{};
    std::vector<Zone> zones{};
  };

  /// `own` gets the normalized text.
  [[nodiscard]] ZonedText normalized(const ZonedText& from, size_t begin, size_t end, std::string& own) const;
  template <typename Between, typename Found>
  static void find(const SpecialTokens& tokens, const ZonedText& in, Between&& between, Found&& found);

  Normalization normalization_;
  SpecialTokens plain_;
  SpecialTokens normalized_;
};

}  // namespace folio::data
