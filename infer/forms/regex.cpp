#include "infer/forms/regex.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/number.h"
#include "core/utf8.h"
#include "infer/forms/character_classes.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostBytes = size_t{1} << 16U;  // maximum length of an expression
constexpr int kMostNested = 200;                 // maximum depth of groups
constexpr int64_t kMostRepeats = 1000;           // maximum count of a repetition, as in RE2
constexpr size_t kManyRanges = 4096;             // a class is merged early after at least this many new ranges

bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

Syntax any_of(CharacterRanges ranges) { return {.kind = Syntax::Kind::Characters, .ranges = std::move(ranges)}; }

class RegexParser {
 public:
  RegexParser(std::string_view expression, RegexDialect dialect, const core::WorkBudget& budget)
      : is_ecma_(dialect == RegexDialect::Ecma), budget_(budget) {
    budget_.spend(1 + expression.size());
    core::require(expression.size() <= kMostBytes, "has {} bytes, but at most {} are allowed", expression.size(),
                  kMostBytes);
    for (size_t at = 0; at < expression.size();) {
      const core::Utf8Char c = core::decode_utf8(expression, at);
      core::require(c.valid, "character {}: invalid UTF-8", text_.size() + 1);
      text_.push_back(c.code_point);
      at += c.length;
    }
  }

  Syntax parse() {
    Syntax all = choice();
    if (!at_end()) refuse(at_, "unmatched )");
    return all;
  }

 private:
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] bool comes(char c) const { return !at_end() && text_[at_] == static_cast<uint8_t>(c); }
  [[nodiscard]] bool comes(std::string_view all) const {
    return text_.size() - at_ >= all.size() &&
           std::equal(all.begin(), all.end(), text_.begin() + static_cast<std::ptrdiff_t>(at_),
                      [](char a, uint32_t b) { return static_cast<uint8_t>(a) == b; });
  }
  bool take(std::string_view all) {
    const bool here = comes(all);
    if (here) at_ += all.size();
    return here;
  }
  [[noreturn]] static void refuse(size_t at, std::string_view what) { core::fail("character {}: {}", at + 1, what); }

  [[nodiscard]] Syntax characters(CharacterRanges ranges) const {
    budget_.spend(1 + ranges.size());
    return any_of(std::move(ranges));
  }

  Syntax choice() {
    std::vector<Syntax> branches;
    do branches.push_back(sequence());
    while (take("|"));
    if (branches.size() == 1) return std::move(branches.front());
    return {.kind = Syntax::Kind::Choice, .parts = std::move(branches)};
  }

  Syntax sequence() {
    Syntax all;
    while (!at_end() && !comes('|') && !comes(')')) all.parts.push_back(repeated());
    return all;
  }

  Syntax repeated() {
    const size_t from = at_;
    if (comes('*') || comes('+') || comes('?')) refuse(at_, "nothing to repeat");
    if (repetition()) refuse(from, "nothing to repeat");
    Syntax one = atom();
    const auto times = repetition();
    if (!times) return one;
    take("?");  // a lazy repetition matches the same strings
    const size_t next = at_;
    if (comes('+')) refuse(next, "possessive quantifiers are not supported");
    if (comes('*') || comes('?') || repetition()) refuse(next, "invalid nested repetition; put the inner one in ( )");
    return {.kind = Syntax::Kind::Repeat, .parts = {std::move(one)}, .least = times->first, .most = times->second};
  }

  // Parses a repetition and returns its bounds, or nullopt if there is none. A { that doesn't begin a repetition is a
  // literal, as in RE2.
  std::optional<std::pair<int64_t, int64_t>> repetition() {
    if (take("*")) return std::pair{0, -1};
    if (take("+")) return std::pair{1, -1};
    if (take("?")) return std::pair{0, 1};
    const size_t from = at_;
    if (!take("{")) return {};
    const auto least = number();
    auto most = least;
    if (take(",")) {
      most = number();
      if (!least && most && comes('}'))
        refuse(from, "regex engines differ on {,n}; write {0,n}, or \\{ for a literal {");
      if (!most) most = -1;
    }
    if (!least || !take("}")) {
      at_ = from;
      return {};
    }
    if (std::max(*least, *most) > kMostRepeats)
      refuse(from, core::message("the repetition count exceeds {}", kMostRepeats));
    if (*most >= 0 && *most < *least) refuse(from, "invalid repetition, the minimum exceeds the maximum");
    return std::pair{*least, *most};
  }

  std::optional<int64_t> number() {
    const size_t from = at_;
    int64_t value = 0;
    for (; !at_end() && is_digit(text_[at_]); ++at_)
      value = std::min(value * 10 + (text_[at_] - '0'), kMostRepeats + 1);
    if (at_ == from) return {};
    return value;
  }

  Syntax atom() {
    const size_t from = at_;
    if (take("(")) return group(from);
    if (take("[")) return characters(character_class(from));
    if (take(".")) return characters(others(is_ecma_ ? kLineEnds : CharacterRanges{{'\n', '\n'}}));
    if (take("^") || (!is_ecma_ && take("\\A"))) return {.kind = Syntax::Kind::Begin, .at = from};
    if (take("$") || (!is_ecma_ && take("\\z"))) return {.kind = Syntax::Kind::End, .at = from};
    if (take("\\")) return characters(escape(from));
    const uint32_t c = text_[at_++];
    return characters({{c, c}});
  }

  Syntax group(size_t from) {
    if (take("?")) {
      if (comes("=") || comes("!")) refuse(from, "look-ahead is not supported");
      if (comes("<=") || comes("<!")) refuse(from, "look-behind is not supported");
      if (comes("P=")) refuse(from, "backreferences are not supported");
      if (take("P<") || take("<")) {
        const size_t name = at_;
        while (!at_end() && (is_letter(text_[at_]) || is_digit(text_[at_]) || comes('_'))) ++at_;
        if (at_ == name || !take(">")) refuse(from, "invalid group name, expected letters, digits and _, then >");
      } else if (!take(":")) {
        refuse(from, "flags and groups other than (...), (?:...) and (?P<name>...) are not supported");
      }
    }
    if (++nested_ > kMostNested) refuse(from, core::message("groups are nested more than {} levels deep", kMostNested));
    Syntax inner = choice();
    if (!take(")")) refuse(from, "unmatched (");
    --nested_;
    return inner;
  }

  CharacterRanges character_class(size_t from) {
    const bool negated = take("^");
    if (is_ecma_ && comes(']')) refuse(from, "regex engines differ on ] at the start of a class; write \\]");
    CharacterRanges ranges;
    size_t n_merged = 0;
    for (bool first = true; first || !comes(']'); first = false) {
      if (at_end()) refuse(from, "unmatched [");
      const size_t low_at = at_;
      if (take("[:")) {
        named_class(low_at, ranges);
        continue;
      }
      const CharacterRanges low = class_item();
      budget_.spend(1 + low.size());
      if (ranges.size() > 2 * n_merged + kManyRanges) {  // limits memory if classes such as \w repeat
        ranges = merged(std::move(ranges));
        n_merged = ranges.size();
      }
      if (!comes('-') || comes("-]")) {
        ranges.insert(ranges.end(), low.begin(), low.end());
        continue;
      }
      ++at_;
      if (at_end()) refuse(from, "unmatched [");
      const CharacterRanges high = class_item();
      const auto is_one = [](const CharacterRanges& r) { return r.size() == 1 && r[0].first == r[0].second; };
      if (!is_one(low) || !is_one(high))
        refuse(low_at, "invalid character range, both ends must be one character; write \\- for a literal -");
      if (low[0].first > high[0].first) refuse(low_at, "invalid character range, the end precedes the start");
      ranges.emplace_back(low[0].first, high[0].first);
    }
    ++at_;
    ranges = merged(std::move(ranges));
    return negated ? others(ranges) : ranges;
  }

  void named_class(size_t from, CharacterRanges& to) {
    const bool negated = take("^");
    const std::string name = letters();
    const auto ranges = posix_class(name);
    if (is_ecma_ || !ranges || !take(":]")) {
      refuse(from, is_ecma_ ? "regex engines differ on [: in a class; write \\[ for a literal ["
                            : "unknown character class; write \\[ for a literal [");
    }
    const CharacterRanges chosen = negated ? others(*ranges) : *ranges;
    to.insert(to.end(), chosen.begin(), chosen.end());
  }

  std::string letters() {
    std::string all;
    for (; !at_end() && (is_letter(text_[at_]) || comes('_')); ++at_) all += static_cast<char>(text_[at_]);
    return all;
  }

  // Parses the name of a general category after \p, or after \P if `negated`; `from` is the escape's position.
  CharacterRanges unicode_class(size_t from, bool negated) {
    std::string name;
    if (take("{")) {
      name = letters();
      if (!take("}")) refuse(from, "only Unicode general categories are supported, such as \\p{Lu}");
    } else if (!is_ecma_ && !at_end() && is_letter(text_[at_])) {
      name = static_cast<char>(text_[at_++]);
    }
    const auto ranges = forms::unicode_class(name);
    if (!ranges) {
      refuse(from, core::message("Unicode class \"{}\" is not supported; only general categories except C and Cn are",
                                 core::printable(name, 40)));
    }
    return negated ? others(*ranges) : *ranges;
  }

  CharacterRanges class_item() {
    const size_t from = at_;
    if (is_ecma_ && take("\\b")) return {{'\b', '\b'}};  // a word boundary only outside of classes
    if (take("\\")) return escape(from);
    const uint32_t c = text_[at_++];
    return {{c, c}};
  }

  // Parses an escape after its backslash, which is at position `from`.
  CharacterRanges escape(size_t from) {
    if (at_end()) refuse(from, "trailing backslash");
    const uint32_t c = text_[at_++];
    const auto one = [](uint32_t value) { return CharacterRanges{{value, value}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return others(kDigits);
      case 's':
        return is_ecma_ ? kEcmaSpaces : kSpaces;
      case 'S':
        return others(is_ecma_ ? kEcmaSpaces : kSpaces);
      case 'w':
        return kWords;
      case 'W':
        return others(kWords);
      case 'a':
        if (is_ecma_) refuse(from, "regex engines differ on \\a; write \\x07");
        return one('\a');
      case 'c':
        if (!is_ecma_ || at_end() || !is_letter(text_[at_])) refuse(from, "\\c is not supported here");
        return one(text_[at_++] % 32);
      case 'f':
        return one('\f');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'v':
        return one('\v');
      case 'x':
        if (is_ecma_ && comes('{')) refuse(from, "\\x must have two hexadecimal digits; write \\u{H...} for others");
        return one(take("{") ? hex(from, 1, 6, true) : hex(from, 2, 2, false));
      case 'u':  // not in RE2, but common in JSON schemas
        return one(is_ecma_ && take("{") ? hex(from, 1, 6, true) : utf16(from));
      case '0': {
        if (is_ecma_ && !at_end() && is_digit(text_[at_])) refuse(from, "\\0 must not be followed by a digit");
        uint32_t value = 0;
        for (int i = 0; i < 2 && !at_end() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
          value = value * 8 + (text_[at_++] - '0');
        }
        return one(value);
      }
      case 'b':
      case 'B':
        refuse(from, core::message("word boundaries (\\{}) are not supported", static_cast<char>(c)));
      case 'p':
      case 'P':
        return unicode_class(from, c == 'P');
      default:
        if (is_digit(c) || c == 'k') refuse(from, "backreferences are not supported");
        if (c < 0x80 && is_letter(c)) refuse(from, core::message("\\{} is not supported here", static_cast<char>(c)));
        return one(c);
    }
  }

  // Parses the four digits after \u. If they are a high surrogate, also parses the \u of the low surrogate.
  uint32_t utf16(size_t from) {
    const uint32_t first = digits(from, 4, 4, false);
    uint32_t value = first;
    if (first >= 0xD800 && first < 0xDC00 && take("\\u")) {
      const uint32_t second = digits(from, 4, 4, false);
      if (second >= 0xDC00 && second < 0xE000) value = 0x10000 + ((first - 0xD800) << 10U) + (second - 0xDC00);
    }
    return checked(from, value);
  }

  uint32_t hex(size_t from, size_t least, size_t most, bool braced) {
    return checked(from, digits(from, least, most, braced));
  }

  static uint32_t checked(size_t from, uint32_t value) {
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) refuse(from, "invalid Unicode code point");
    return value;
  }

  uint32_t digits(size_t from, size_t least, size_t most, bool braced) {
    std::string all;
    for (; all.size() < most && !at_end() && text_[at_] < 0x80 && std::isxdigit(static_cast<int>(text_[at_])); ++at_) {
      all += static_cast<char>(text_[at_]);
    }
    const auto value = core::number_of<uint32_t>(all, 16);
    if (!value || all.size() < least || (braced && !take("}"))) {
      refuse(from, "invalid escape, expected \\xHH, \\x{H...} or \\uHHHH");
    }
    return *value;
  }

  bool is_ecma_;
  const core::WorkBudget& budget_;
  std::vector<uint32_t> text_;  // the expression's code points
  size_t at_ = 0;
  int nested_ = 0;
};

const Syntax* find(const Syntax& syntax, Syntax::Kind kind, const core::WorkBudget& budget) {
  budget.spend(1);
  if (syntax.kind == kind) return &syntax;
  for (const Syntax& part : syntax.parts) {
    if (const Syntax* found = find(part, kind, budget)) return found;
  }
  return nullptr;
}

void refuse_anchor(const Syntax& syntax, Syntax::Kind kind, const core::WorkBudget& budget) {
  if (const Syntax* found = find(syntax, kind, budget)) {
    core::fail("character {}: {}", found->at + 1,
               kind == Syntax::Kind::Begin ? "^ is only supported at the beginning; write \\^ for a literal ^"
                                           : "$ is only supported at the end; write \\$ for a literal $");
  }
}

// Resolves ^ (or $): removes it at the beginning (or end) of the expression and rejects it elsewhere. For a search,
// alternatives without the anchor may follow (or precede) any string.
void resolve_anchor(Syntax& syntax, Syntax::Kind kind, RegexMatch match, const core::WorkBudget& budget) {
  const bool is_begin = kind == Syntax::Kind::Begin;
  if (find(syntax, kind, budget) == nullptr) {
    if (match == RegexMatch::Whole) return;
    Syntax any{.kind = Syntax::Kind::Repeat, .parts = {any_of({{0, kLastCodePoint}})}, .least = 0, .most = -1};
    Syntax both;
    both.parts.push_back(std::move(any));
    both.parts.insert(is_begin ? both.parts.end() : both.parts.begin(), std::move(syntax));
    syntax = std::move(both);
    return;
  }
  switch (syntax.kind) {
    case Syntax::Kind::Choice:
      for (Syntax& part : syntax.parts) resolve_anchor(part, kind, match, budget);
      return;
    case Syntax::Kind::Sequence: {
      auto& parts = syntax.parts;
      if (!is_begin) std::ranges::reverse(parts);
      const auto inner = std::ranges::find_if(parts, [&](const Syntax& part) { return part.kind != kind; });
      const bool is_anchored = inner != parts.begin();
      parts.erase(parts.begin(), inner);
      for (size_t i = 1; i < parts.size(); ++i) refuse_anchor(parts[i], kind, budget);
      if (!parts.empty()) resolve_anchor(parts.front(), kind, is_anchored ? RegexMatch::Whole : match, budget);
      if (!is_begin) std::ranges::reverse(parts);
      return;
    }
    default:
      if (syntax.kind != kind) refuse_anchor(syntax, kind, budget);
      syntax = {};
  }
}

}  // namespace

Syntax parse_regex(std::string_view expression, RegexMatch match, RegexDialect dialect,
                   const core::WorkBudget& budget) {
  Syntax all = RegexParser(expression, dialect, budget).parse();
  resolve_anchor(all, Syntax::Kind::Begin, match, budget);
  resolve_anchor(all, Syntax::Kind::End, match, budget);
  return all;
}

Grammar::Part regex_part(Grammar& grammar, std::string_view expression) {
  return build(grammar, parse_regex(expression, RegexMatch::Whole, RegexDialect::Re2, grammar.budget()),
               called(grammar, [&](auto ranges) { return grammar.characters(ranges); }));
}

}  // namespace folio::infer::forms
