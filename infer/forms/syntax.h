// The syntax tree shared by regular expressions and GBNF (characters, sequences, choices, repetitions), its translation
// into parts of a Grammar, and the spellings of characters as bytes: in UTF-8, and as escapes of JSON strings.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "infer/forms/grammar.h"

namespace folio::infer::forms {

using CharacterRange = std::pair<uint32_t, uint32_t>;  ///< range of code points, both ends inclusive
using CharacterRanges = std::vector<CharacterRange>;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

/// Returns the ranges sorted, with overlapping and adjacent ones joined.
[[nodiscard]] CharacterRanges merged(CharacterRanges ranges);
/// Returns all code points outside of `ranges`, which must be a result of merged().
[[nodiscard]] CharacterRanges others(const CharacterRanges& ranges);
/// Returns the code points that are in `ranges` and in `with`.
[[nodiscard]] CharacterRanges intersection(std::span<const CharacterRange> ranges, const CharacterRanges& with);

/// Returns the UTF-8 encodings of the code points in `ranges`. Surrogates are left out.
[[nodiscard]] std::vector<Spelling> utf8_spellings(std::span<const CharacterRange> ranges);
/// Returns the code points of `ranges` as \uXXXX, or as a pair of surrogates \uXXXX\uXXXX, in hexadecimal digits of
/// either case. Lone surrogates are left out.
[[nodiscard]] std::vector<Spelling> hex_spellings(std::span<const CharacterRange> ranges);

struct Syntax {
  enum class Kind : uint8_t { Characters, Sequence, Choice, Repeat, Call, Begin, End };
  Kind kind = Kind::Sequence;
  CharacterRanges ranges{};     ///< Characters: matches one character of these ranges
  std::vector<Syntax> parts{};  ///< Sequence and Choice: the parts; Repeat: the repeated part
  int64_t least = 0, most = 0;  ///< Repeat: bounds of the count; `most` < 0: no limit
  Grammar::Rule rule = -1;      ///< Call: the rule that is called
  size_t at = 0;                ///< Begin and End (^ and $): position in the source, for errors
};

/// Returns a part that matches one character of `ranges`, spelled as in the output: raw, or with JSON's escapes.
using CharacterPart = std::function<Grammar::Part(std::span<const CharacterRange> ranges)>;

/// Wraps `characters` so that a class with many ranges, such as \p{L} with hundreds, is built once, as a rule.
[[nodiscard]] CharacterPart called(Grammar& grammar, CharacterPart characters);

/// Translates a syntax tree, in which ^ and $ (Kind::Begin and Kind::End) must be resolved, into a part of `grammar`.
[[nodiscard]] Grammar::Part build(Grammar& grammar, const Syntax& syntax, const CharacterPart& characters);

}  // namespace folio::infer::forms
