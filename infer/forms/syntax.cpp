#include "infer/forms/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "core/utf8.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kFewRanges = 8;

std::string utf8(uint32_t c) {
  std::string text;
  core::append_utf8(text, c);
  return text;
}

std::string escape(uint32_t c) { return fmt::format("\\u{:04x}", c); }

std::string pair_of(uint32_t above) {  // escapes the code point 0x10000 + above as a surrogate pair
  return escape(0xD800 + (above >> 10U)) + escape(0xDC00 + (above & 0x3FFU));
}

// Appends to `to` the spellings text(c) for all c in [low, high]. Splits the range, as RE2 does (Russ Cox, "Regular
// Expression Matching in the Wild"), so that in each subrange, all digits (or UTF-8 bytes) after the first one that
// varies take all values. `bits`: for each digit except the last, from right to left, the number of bits in the digits
// after it. Hexadecimal digits match in either case.
void add_spellings(uint32_t low, uint32_t high, std::span<const unsigned> bits, std::string (*text)(uint32_t),
                   std::vector<Spelling>& to) {
  for (const unsigned n : bits) {
    const uint32_t mask = (1U << n) - 1;
    if ((low & ~mask) == (high & ~mask)) break;
    const bool begins = (low & mask) == 0;
    if (begins && (high & mask) == mask) continue;
    const uint32_t next = begins ? high & ~mask : (low | mask) + 1;
    add_spellings(low, next - 1, bits, text, to);
    return add_spellings(next, high, bits, text, to);
  }
  const std::string begin = text(low);
  const std::string end = text(high);
  Spelling& spelling = to.emplace_back();
  for (size_t i = 0; i < begin.size(); ++i) {
    auto& ranges = spelling.emplace_back();
    const auto first = static_cast<uint8_t>(begin[i]);
    const auto last = static_cast<uint8_t>(end[i]);
    if (text == utf8 || last < 'a' || last > 'f') {
      ranges.emplace_back(first, last);
      continue;
    }
    if (first <= '9') ranges.emplace_back(first, '9');
    const uint8_t letter = std::max<uint8_t>(first, 'a');
    ranges.emplace_back(letter, last);
    ranges.emplace_back(letter - 'a' + 'A', last - 'a' + 'A');
  }
}

}  // namespace

CharacterRanges merged(CharacterRanges ranges) {
  std::ranges::sort(ranges);
  CharacterRanges result;
  for (const auto& [low, high] : ranges) {
    if (!result.empty() && low <= uint64_t{result.back().second} + 1) {
      result.back().second = std::max(result.back().second, high);
    } else {
      result.emplace_back(low, high);
    }
  }
  return result;
}

CharacterRanges others(const CharacterRanges& ranges) {
  CharacterRanges result;
  uint32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) result.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kLastCodePoint) result.emplace_back(next, kLastCodePoint);
  return result;
}

CharacterRanges intersection(std::span<const CharacterRange> ranges, const CharacterRanges& with) {
  CharacterRanges both;
  for (const auto& [low, high] : ranges) {
    for (const auto& [first, last] : with) {
      if (std::max(low, first) <= std::min(high, last)) both.emplace_back(std::max(low, first), std::min(high, last));
    }
  }
  return both;
}

std::vector<Spelling> utf8_spellings(std::span<const CharacterRange> ranges) {
  constexpr std::array kBits{6U, 12U, 18U};
  std::vector<Spelling> all;
  for (const auto& [low, high] :
       intersection(ranges, {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCodePoint}})) {
    add_spellings(low, high, std::span(kBits).first(utf8(low).size() - 1), utf8, all);
  }
  return all;
}

std::vector<Spelling> hex_spellings(std::span<const CharacterRange> ranges) {
  std::vector<Spelling> all;
  for (const auto& [low, high] : intersection(ranges, {{0, 0xD7FF}, {0xE000, 0xFFFF}})) {
    add_spellings(low, high, std::array{4U, 8U, 12U}, escape, all);
  }
  for (const auto& [low, high] : intersection(ranges, {{0x10000, kLastCodePoint}})) {
    add_spellings(low - 0x10000, high - 0x10000, std::array{4U, 8U, 10U, 14U, 18U}, pair_of, all);
  }
  return all;
}

CharacterPart called(Grammar& grammar, CharacterPart characters) {
  const auto rules = std::make_shared<std::map<CharacterRanges, Grammar::Rule>>();
  return [&grammar, rules, characters = std::move(characters)](std::span<const CharacterRange> ranges) {
    if (ranges.size() <= kFewRanges) return characters(ranges);
    grammar.budget().spend(ranges.size() / 8);
    const auto [found, is_new] = rules->try_emplace({ranges.begin(), ranges.end()}, -1);
    if (is_new) {
      found->second = grammar.declare();
      grammar.define(found->second, characters(ranges));
    }
    return grammar.call(found->second);
  };
}

Grammar::Part build(Grammar& grammar, const Syntax& syntax, const CharacterPart& characters) {
  switch (syntax.kind) {
    case Syntax::Kind::Characters:
      return characters(syntax.ranges);
    case Syntax::Kind::Call:
      return grammar.call(syntax.rule);
    case Syntax::Kind::Repeat: {
      const auto one = [&] { return build(grammar, syntax.parts.front(), characters); };
      if (syntax.least == 0 && syntax.most == 1) return grammar.optional(one());
      return grammar.repeat(one, syntax.least, syntax.most);
    }
    default: {
      std::vector<Grammar::Part> parts;
      for (const Syntax& part : syntax.parts) parts.push_back(build(grammar, part, characters));
      return syntax.kind == Syntax::Kind::Choice ? grammar.choice(parts) : grammar.sequence(parts);
    }
  }
}

}  // namespace folio::infer::forms
