#include "infer/forms/json_string.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/utf8.h"
#include "infer/forms/character_automaton.h"
#include "infer/forms/json_value.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

constexpr std::array<std::pair<uint32_t, char>, 8> kShortEscapes{
    {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

const CharacterRanges kRaw{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}};

}  // namespace

Grammar::Part json_characters(Grammar& grammar, std::span<const CharacterRange> ranges) {
  grammar.budget().spend(1 + ranges.size());
  std::vector<Spelling> all = utf8_spellings(intersection(ranges, kRaw));
  for (const auto& [c, letter] : kShortEscapes) {
    const bool has = std::ranges::any_of(ranges, [&](const auto& r) { return r.first <= c && c <= r.second; });
    if (has) all.push_back({{{'\\', '\\'}}, {{letter, letter}}});
  }
  std::ranges::move(hex_spellings(ranges), std::back_inserter(all));
  return grammar.spellings(all);
}

Grammar::Part json_key_characters(Grammar& grammar, std::span<const CharacterRange> ranges) {
  std::vector<std::string> escapes;
  for (const auto& [low, high] : intersection(ranges, {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})) {
    for (uint32_t c = low; c <= high; ++c) {
      const std::string written = json_quoted(std::string(1, static_cast<char>(c)));
      escapes.push_back(written.substr(1, written.size() - 2));
    }
  }
  return grammar.choice(std::array{grammar.characters(intersection(ranges, kRaw)), grammar.texts(std::move(escapes))});
}

Grammar::Part other_key(Grammar& grammar, std::span<const std::string> excluded) {
  // All strings that json_quoted() can return. The automaton's characters are bytes.
  static const CharacterAutomaton kAny(
      parse_regex(R"("(?:[ !#-\[\]-\x7f]|\\(?:["\\bfnrt]|u00(?:0[0-7be-f]|1[0-9a-f]))|[\xc2-\xdf][\x80-\xbf]|)"
                  R"((?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]|)"
                  R"((?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2})*")"),
      core::WorkBudget());
  std::vector<std::string> keys;
  for (const std::string& key : excluded) {
    std::string& bytes = keys.emplace_back();
    for (const char c : json_quoted(key)) core::append_utf8(bytes, static_cast<uint8_t>(c));
  }
  const CharacterAutomaton all_keys(keys, grammar.budget());
  return CharacterAutomaton(kAny, grammar.budget()).but_not(all_keys).build_bytes(grammar);
}

}  // namespace folio::infer::forms
