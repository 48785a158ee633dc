// What regular expressions and GBNF have in common: a tree of characters, sequences, choices and repetitions, and its
// translation into parts of a Grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "infer/forms/grammar.h"

namespace folio::infer::forms {

using CharacterRange = std::pair<uint32_t, uint32_t>;  ///< code points, both ends included
using CharacterRanges = std::vector<CharacterRange>;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

/// In order, without overlap, and not adjacent.
[[nodiscard]] CharacterRanges merged(CharacterRanges ranges);
/// All other code points. `ranges` is merged.
[[nodiscard]] CharacterRanges others(const CharacterRanges& ranges);

struct Syntax {
  enum class Kind : uint8_t { Characters, Sequence, Choice, Repeat, Call, Begin, End };
  Kind kind = Kind::Sequence;
  CharacterRanges ranges{};     ///< of Characters: one of these
  std::vector<Syntax> parts{};  ///< of Sequence and Choice; of Repeat: one
  int64_t least = 0, most = 0;  ///< of Repeat; `most` < 0: without end
  Grammar::Rule rule = -1;      ///< of Call
  size_t at = 0;                ///< of Begin and End, which are ^ and $: where it is written, for messages
};

/// Builds the part of one character of these ranges, as the text writes it.
using CharacterPart = std::function<Grammar::Part(std::span<const CharacterRange> ranges)>;

/// The same, but of many ranges it makes a rule once, and calls it: \p{L} is hundreds of them.
[[nodiscard]] CharacterPart called(Grammar& grammar, CharacterPart characters);

/// `syntax` has no Begin and no End.
[[nodiscard]] Grammar::Part build(Grammar& grammar, const Syntax& syntax, const CharacterPart& characters);

}  // namespace folio::infer::forms
