#include "infer/forms/character_classes.h"

#include <utf8proc.h>

#include <map>
#include <string>

namespace folio::infer::forms {
namespace {

const std::map<std::string_view, CharacterRanges> kPosixClasses{
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{0, 0x7F}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
    {"digit", {{'0', '9'}}},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

// Long names of general categories (Unicode's PropertyValueAliases.txt), which ECMA-262 also accepts.
const std::map<std::string_view, std::string_view> kLongNames{
    {"Letter", "L"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Private_Use", "Co"},
};

using Categories = std::map<std::string, CharacterRanges, std::less<>>;

// Returns the characters of each category ("Lu") and of each group of categories ("L").
Categories read_categories() {
  Categories all;
  const auto add = [&](std::string_view name, uint32_t c) {
    CharacterRanges& ranges = all[std::string(name)];
    if (!ranges.empty() && ranges.back().second + 1 == c) {
      ranges.back().second = c;
    } else {
      ranges.emplace_back(c, c);
    }
  };
  for (uint32_t c = 0; c <= kLastCodePoint; ++c) {
    const std::string_view name = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    if (name == "Cn" || name == "Cs") continue;  // skips unassigned code points and surrogates, which UTF-8 excludes
    add(name, c);
    if (name[0] != 'C') add(name.substr(0, 1), c);
  }
  return all;
}

}  // namespace

const CharacterRanges kDigits{{'0', '9'}};
const CharacterRanges kWords{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterRanges kSpaces{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
const CharacterRanges kEcmaSpaces{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                  {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                  {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharacterRanges kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

std::optional<CharacterRanges> posix_class(std::string_view name) {
  const auto found = kPosixClasses.find(name);
  if (found == kPosixClasses.end()) return {};
  return found->second;
}

std::optional<CharacterRanges> unicode_class(std::string_view name) {
  if (name == "Any") return CharacterRanges{{0, kLastCodePoint}};
  static const Categories categories = read_categories();  // computed once, in a few milliseconds
  const auto known = kLongNames.find(name);
  const auto found = categories.find(known == kLongNames.end() ? name : known->second);
  if (found == categories.end()) return {};
  return found->second;
}

}  // namespace folio::infer::forms
