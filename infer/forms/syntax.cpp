#include "infer/forms/syntax.h"

#include <algorithm>
#include <map>
#include <memory>

namespace folio::infer::forms {
namespace {

constexpr size_t kFewRanges = 8;

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
