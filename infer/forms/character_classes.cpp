#include "infer/forms/character_classes.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace folio::infer::forms {
namespace {

struct PosixClass {
  std::string_view name;
  CharacterRanges ranges;
};

const std::array<PosixClass, 14> kPosixClasses{{
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
}};

struct LongName {
  std::string_view name, category;
};

// Long names of general categories (Unicode's PropertyValueAliases.txt), which ECMA-262 also accepts.
constexpr std::array kLongNames{
    LongName{"Letter", "L"},
    LongName{"Uppercase_Letter", "Lu"},
    LongName{"Lowercase_Letter", "Ll"},
    LongName{"Titlecase_Letter", "Lt"},
    LongName{"Modifier_Letter", "Lm"},
    LongName{"Other_Letter", "Lo"},
    LongName{"Mark", "M"},
    LongName{"Combining_Mark", "M"},
    LongName{"Nonspacing_Mark", "Mn"},
    LongName{"Spacing_Mark", "Mc"},
    LongName{"Enclosing_Mark", "Me"},
    LongName{"Number", "N"},
    LongName{"Decimal_Number", "Nd"},
    LongName{"digit", "Nd"},
    LongName{"Letter_Number", "Nl"},
    LongName{"Other_Number", "No"},
    LongName{"Punctuation", "P"},
    LongName{"punct", "P"},
    LongName{"Connector_Punctuation", "Pc"},
    LongName{"Dash_Punctuation", "Pd"},
    LongName{"Open_Punctuation", "Ps"},
    LongName{"Close_Punctuation", "Pe"},
    LongName{"Initial_Punctuation", "Pi"},
    LongName{"Final_Punctuation", "Pf"},
    LongName{"Other_Punctuation", "Po"},
    LongName{"Symbol", "S"},
    LongName{"Math_Symbol", "Sm"},
    LongName{"Currency_Symbol", "Sc"},
    LongName{"Modifier_Symbol", "Sk"},
    LongName{"Other_Symbol", "So"},
    LongName{"Separator", "Z"},
    LongName{"Space_Separator", "Zs"},
    LongName{"Line_Separator", "Zl"},
    LongName{"Paragraph_Separator", "Zp"},
    LongName{"Control", "Cc"},
    LongName{"cntrl", "Cc"},
    LongName{"Format", "Cf"},
    LongName{"Private_Use", "Co"},
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
  const auto found = std::ranges::find(kPosixClasses, name, &PosixClass::name);
  if (found == kPosixClasses.end()) return {};
  return found->ranges;
}

std::optional<CharacterRanges> unicode_class(std::string_view name) {
  if (name == "Any") return CharacterRanges{{0, kLastCodePoint}};
  static const Categories categories = read_categories();  // computed once, in a few milliseconds
  const auto known = std::ranges::find(kLongNames, name, &LongName::name);
  const auto found = categories.find(known == kLongNames.end() ? name : known->category);
  if (found == categories.end()) return {};
  return found->second;
}

}  // namespace folio::infer::forms
