// Parses GBNF, llama.cpp's grammar format (grammars/README.md there): rules, literals, character sets, groups,
// alternatives, repetitions and comments. Token matches, <think> and <[1000]>, are rejected.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/number.h"
#include "core/utf8.h"
#include "infer/forms/forms.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostGrammarBytes = size_t{1} << 18U;
constexpr int kMostGroups = 200;         // maximum nesting depth of groups
constexpr int64_t kMostOfOne = 100'000;  // maximum repetitions of a grammar element, as in x{9}

Syntax character_set(CharacterRanges ranges) { return {.kind = Syntax::Kind::Characters, .ranges = std::move(ranges)}; }

class GbnfParser {
 public:
  GbnfParser(Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {
    core::require(text.size() <= kMostGrammarBytes, "has {} bytes, but at most {} are allowed", text.size(),
                  kMostGrammarBytes);
    grammar.budget().spend(text.size());
    for (size_t at = 0; at < text.size();) {
      const core::Utf8Char c = core::decode_utf8(text, at);
      at_ = at;
      if (!c.valid) refuse("invalid UTF-8");
      at += c.length;
    }
    at_ = 0;
  }

  Grammar::Part parse() {
    skip(true);
    while (!at_end()) {
      define();
      skip(true);
    }
    for (const auto& [name, rule] : rules_) {
      core::require(rule.is_defined, "line {}: the rule {} is not defined", rule.line, core::printable(name));
    }
    const auto root = rules_.find("root");
    core::require(root != rules_.end(), "the rule \"root\" is missing; it defines the whole output");
    return grammar_.call(root->second.rule);
  }

 private:
  struct Named {
    Grammar::Rule rule;
    size_t line;  // first line that contains the name
    bool is_defined = false;
  };

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] bool comes(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    const bool here = comes(what);
    if (here) at_ += what.size();
    return here;
  }
  // Returns the current line number. Continues from the previous count unless the parser has backed up since.
  [[nodiscard]] size_t line() {
    if (at_ < counted_) return 1 + static_cast<size_t>(std::ranges::count(text_.substr(0, at_), '\n'));
    n_lines_ += static_cast<size_t>(std::ranges::count(text_.substr(counted_, at_ - counted_), '\n'));
    counted_ = at_;
    return 1 + n_lines_;
  }
  [[noreturn]] void refuse(std::string_view what) { core::fail("line {}: {}", line(), what); }

  void skip(bool lines) {
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  [[nodiscard]] static bool is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }

  std::string_view name() {
    const size_t from = at_;
    while (!at_end() && is_of_name(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }

  Named& named(std::string_view name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    const Named rule{.rule = grammar_.declare(name), .line = line()};
    return rules_.emplace(name, rule).first->second;
  }

  void define() {
    const std::string_view name = this->name();
    if (name.empty()) refuse(core::message("expected a rule name, found \"{}\"", rest()));
    Named& rule = named(name);
    if (rule.is_defined) refuse(core::message("the rule {} is defined twice", core::printable(name)));
    rule.is_defined = true;
    skip(false);
    if (!take("::=")) refuse(core::message("expected ::= after {}, found \"{}\"", core::printable(name), rest()));
    skip(true);
    const Syntax syntax = choice(false);
    if (!at_end() && !comes("\n") && !comes("\r")) refuse(core::message("unexpected \"{}\"", rest()));
    grammar_.define(rule.rule, build(grammar_, syntax, [&](auto ranges) { return grammar_.characters(ranges); }));
  }

  // Returns at most 20 characters of the rest of the line, for error messages.
  [[nodiscard]] std::string rest() const {
    return core::printable(text_.substr(at_, std::min(text_.find_first_of("\r\n", at_) - at_, size_t{20})), 20);
  }

  Syntax choice(bool lines) {
    std::vector<Syntax> branches;
    branches.push_back(sequence(lines));
    while (take("|")) {
      skip(true);
      branches.push_back(sequence(lines));
    }
    if (branches.size() == 1) return std::move(branches.front());
    return {.kind = Syntax::Kind::Choice, .parts = std::move(branches)};
  }

  Syntax sequence(bool lines) {
    Syntax all;
    for (skip(lines); !at_end() && !comes("|") && !comes(")") && !comes("\n") && !comes("\r"); skip(lines)) {
      all.parts.push_back(repeated(lines));
    }
    return all;
  }

  Syntax repeated(bool lines) {
    Syntax one = atom();
    skip(lines);
    int64_t least = 0;
    int64_t most = -1;
    if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      least = most = number();
      skip(false);
      if (take(",")) {
        skip(false);
        most = comes("}") ? -1 : number();
      }
      skip(false);
      if (!take("}")) refuse("invalid repetition, expected {m}, {m,} or {m,n}");
      if (most >= 0 && most < least) refuse("invalid repetition, the minimum exceeds the maximum");
    } else if (!take("*")) {
      return one;
    }
    skip(lines);
    if (comes("*") || comes("+") || comes("?") || comes("{")) {
      refuse("invalid nested repetition; put the inner one in ( )");
    }
    return {.kind = Syntax::Kind::Repeat, .parts = {std::move(one)}, .least = least, .most = most};
  }

  int64_t number() {
    skip(false);
    const size_t from = at_;
    int64_t value = 0;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMostOfOne) refuse(core::message("the repetition count exceeds {}", kMostOfOne));
    }
    if (at_ == from) refuse("invalid repetition, expected {m}, {m,} or {m,n}");
    return value;
  }

  Syntax atom() {
    if (take("\"")) return literal();
    if (take("[")) return character_set(set());
    if (take(".")) return character_set({{0, kLastCodePoint}});
    if (take("(")) {
      if (++nested_ > kMostGroups) refuse(core::message("groups are nested more than {} levels deep", kMostGroups));
      Syntax inner = choice(true);
      if (!take(")")) refuse("unmatched (");
      --nested_;
      return inner;
    }
    if (comes("<") || comes("!")) refuse("tokens (<name>, <[id]>) are not supported; write their text");
    const std::string_view name = this->name();
    if (name.empty()) refuse(core::message("unexpected \"{}\"", rest()));
    return {.kind = Syntax::Kind::Call, .rule = named(name).rule};
  }

  Syntax literal() {
    Syntax all;
    while (!take("\"")) {
      if (at_end()) refuse("unterminated string literal");
      const uint32_t c = character();
      all.parts.push_back(character_set({{c, c}}));
    }
    return all;
  }

  CharacterRanges set() {
    const bool negated = take("^");
    CharacterRanges ranges;
    while (!take("]")) {
      if (at_end()) refuse("unmatched [");
      const uint32_t low = character();
      uint32_t high = low;
      if (comes("-") && !comes("-]")) {
        ++at_;
        if (at_end()) refuse("unmatched [");
        high = character();
        if (low > high) refuse("invalid character range, the end precedes the start");
      }
      ranges.emplace_back(low, high);
    }
    if (ranges.empty()) refuse("empty character class; write \\] for a literal ]");
    ranges = merged(std::move(ranges));
    return negated ? others(ranges) : ranges;
  }

  uint32_t character() {
    if (!take("\\")) {
      const core::Utf8Char c = core::decode_utf8(text_, at_);
      at_ += c.length;
      return c.code_point;
    }
    if (at_end()) refuse("trailing backslash");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'U':
        return hexadecimal(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
        return static_cast<uint8_t>(c);
      default:
        --at_;
        refuse(core::message("unknown escape \\{}", core::printable(rest().substr(0, 1))));
    }
  }

  uint32_t hexadecimal(size_t n) {
    const std::string_view digits = text_.substr(at_, n);
    const auto value = core::number_of<uint32_t>(digits, 16);
    if (!value || digits.size() < n) refuse("invalid escape, expected \\xHH, \\uHHHH or \\UHHHHHHHH");
    at_ += n;
    if (*value > kLastCodePoint || (*value >= 0xD800 && *value <= 0xDFFF)) refuse("invalid Unicode code point");
    return *value;
  }

  Grammar& grammar_;
  std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0, n_lines_ = 0;  // n_lines_ is the number of line breaks before counted_
  int nested_ = 0;
  std::map<std::string, Named, std::less<>> rules_;
};

}  // namespace

Grammar::Part gbnf_part(Grammar& grammar, std::string_view text) { return GbnfParser(grammar, text).parse(); }

}  // namespace folio::infer::forms
