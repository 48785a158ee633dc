#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/utf8.h"
#include "jinja/value.h"

namespace folio::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Converts all line ends to "\n" and removes one at the end of the source.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    if (!core::is_utf8(source_)) fail("not UTF-8");
    while (at_ < source_.size()) data();
    add(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { core::fail("line {}: {}", line_, what); }

  void add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .line = line_, .text = std::move(text)});
  }

  [[nodiscard]] bool starts(std::string_view text, size_t at) const {
    return std::string_view(source_).substr(std::min(at, source_.size())).starts_with(text);
  }

  void advance(size_t to) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  // Returns the length in bytes of the whitespace character at `at`, or 0.
  [[nodiscard]] size_t space_at(size_t at) const {
    if (at >= source_.size()) return 0;
    const core::Utf8Char c = core::decode_utf8(source_, at);
    return is_space(c.code_point) ? c.length : 0;
  }
  [[nodiscard]] size_t after_spaces(size_t at) const {
    while (const size_t length = space_at(at)) at += length;
    return at;
  }

  // Returns the end of the text in [at_, end), without the whitespace that the tag at `end` strips. `sign` is the
  // tag's sign: "-", "+" or '\0' for none.
  [[nodiscard]] size_t text_end(size_t end, char sign, bool is_output) const {
    if (sign == '+' || (sign != '-' && is_output)) return end;
    size_t kept = at_;  // end of the last non-whitespace character
    for (size_t at = at_; at < end;) {
      const size_t space = space_at(at);
      at += space != 0 ? space : core::decode_utf8(source_, at).length;
      if (space == 0) kept = at;
    }
    if (sign == '-') return kept;
    const size_t line_end = end > at_ ? source_.rfind('\n', end - 1) : std::string::npos;
    const bool in_text = line_end != std::string::npos && line_end >= at_;
    const size_t line = in_text ? line_end + 1 : at_;
    const bool line_begins = in_text || at_ == 0 || source_[at_ - 1] == '\n';
    return line_begins && kept <= line ? line : end;
  }

  void add_data(size_t end) {
    if (end > at_) add(TokenKind::Data, source_.substr(at_, end - at_));
  }

  [[nodiscard]] char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void data() {
    size_t tag = source_.find('{', at_);
    while (tag != std::string::npos && !starts("{%", tag) && !starts("{{", tag) && !starts("{#", tag)) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos) {
      add_data(source_.size());
      return advance(source_.size());
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(text_end(tag, sign, kind == '{'));
    advance(tag);
    if (kind == '%' && raw()) return;
    const size_t inner = tag + (sign == '\0' ? 2 : 3);
    if (kind == '#') return comment(inner);
    advance(inner);
    tag_tokens(kind == '%');
  }

  // If {% name %} is at `at`, returns its end and sets `sign` to the "-" or "+" before "%}". Otherwise returns npos.
  [[nodiscard]] size_t end_of_tag(size_t at, std::string_view name, char& sign) const {
    at = after_spaces(at + 2 + (sign_at(at + 2) == '\0' ? 0 : 1));
    if (!starts(name, at)) return std::string::npos;
    at = after_spaces(at + name.size());
    sign = sign_at(at);
    if (sign != '\0') ++at;
    return starts("%}", at) ? at + 2 : std::string::npos;
  }

  // Reads {% raw %} and the unparsed text up to {% endraw %}. Returns false for another tag.
  bool raw() {
    char sign = '\0';
    const size_t begin = end_of_tag(at_, "raw", sign);
    if (begin == std::string::npos || sign == '+') return false;
    advance(sign == '-' ? after_spaces(begin) : begin);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const size_t end = end_of_tag(tag, "endraw", sign);
      if (end == std::string::npos) continue;
      add_data(text_end(tag, sign_at(tag + 2), false));
      advance(tag_end(end, sign));
      return true;
    }
    fail("missing end of a raw block");
  }

  void comment(size_t inner) {
    const size_t end = source_.find("#}", inner);
    if (end == std::string::npos) fail("missing end of a comment");
    const char sign = end > inner ? sign_at(end - 1) : '\0';
    advance(tag_end(end + 2, sign));
  }

  // Returns the position after a tag that ends at `at`, including the whitespace or newline that the tag strips.
  [[nodiscard]] size_t tag_end(size_t at, char sign) const {
    if (sign == '-') return after_spaces(at);
    return sign != '+' && starts("\n", at) ? at + 1 : at;
  }

  void tag_tokens(bool is_block) {
    add(is_block ? TokenKind::BlockBegin : TokenKind::OutputBegin, "");
    const std::string_view end = is_block ? "%}" : "}}";
    std::string open;  // the closing brackets that are expected, innermost last
    while (true) {
      advance(after_spaces(at_));
      if (at_ >= source_.size()) fail("missing end of a tag");
      const char sign = starts("-", at_) || (is_block && starts("+", at_)) ? source_[at_] : '\0';
      const size_t at = sign == '\0' ? at_ : at_ + 1;
      if (open.empty() && starts(end, at)) {
        add(is_block ? TokenKind::BlockEnd : TokenKind::OutputEnd, "");
        return advance(is_block || sign == '-' ? tag_end(at + 2, sign) : at + 2);
      }
      const char c = source_[at_];
      if (is_digit(c)) {
        number();
      } else if (is_name_begin(c)) {
        size_t to = at_;
        while (to < source_.size() && (is_name_begin(source_[to]) || is_digit(source_[to]))) ++to;
        add(TokenKind::Name, source_.substr(at_, to - at_));
        advance(to);
      } else if (c == '"' || c == '\'') {
        string();
      } else {
        operation(open);
      }
    }
  }

  void number() {
    const auto digits = [&](size_t at, std::string_view those = "0123456789") {
      const auto is_one = [&](size_t i) { return i < source_.size() && those.find(source_[i]) != std::string::npos; };
      while (is_one(at) || (starts("_", at) && is_one(at + 1))) ++at;
      return at;
    };
    constexpr std::string_view kHex = "0123456789abcdefABCDEF";
    size_t to = digits(at_);
    if (const char base = source_[at_] != '0' || to != at_ + 1 || to >= source_.size() ? '\0' : source_[to];
        base == 'x' || base == 'X' || base == 'o' || base == 'O' || base == 'b' || base == 'B') {
      const size_t n = base == 'x' || base == 'X' ? 22 : base == 'o' || base == 'O' ? 8 : 2;
      const size_t end = digits(to + 1, kHex.substr(0, n));
      if (end > to + 1) return add_number(TokenKind::Integer, end);
    }
    const bool is_place = at_ > 0 && source_[at_ - 1] == '.';  // after a dot, digits are an index: a.0.1
    size_t end = to;
    if (!is_place && starts(".", to)) end = digits(to + 1) > to + 1 ? digits(to + 1) : to;
    if (!is_place && (starts("e", end) || starts("E", end))) {
      const size_t exponent = end + 1 + (sign_at(end + 1) == '\0' ? 0 : 1);
      if (digits(exponent) > exponent) end = digits(exponent);
    }
    add_number(end > to ? TokenKind::Float : TokenKind::Integer, end);
  }

  void add_number(TokenKind kind, size_t to) {
    std::string text = source_.substr(at_, to - at_);
    std::erase(text, '_');
    add(kind, std::move(text));
    advance(to);
  }

  void string() {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != source_[at_]) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("missing end of a string");
    add(TokenKind::String, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1);
  }

  // Decodes the escape sequences of Python string literals, such as \n and \u00e9.
  [[nodiscard]] std::string unescaped(std::string_view text) const {
    constexpr std::string_view kEscapes = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        result += text[i];
        continue;
      }
      const char c = text[++i];  // in range, since a string does not end with a backslash
      const size_t known = kEscapes.find(c);
      if (known != std::string_view::npos) {
        result += kMeanings[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        core::append_utf8(result, code_point(text.substr(i + 1, n), n, 16));
        i += n;
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') ++n;
        core::append_utf8(result, code_point(text.substr(i, n), n, 8));
        i += n - 1;
      } else if (c == 'N') {
        fail("\\N{...} in a string is not supported");
      } else if (c != '\n') {
        result += '\\';
        result += c;
      }
    }
    return result;
  }

  [[nodiscard]] uint32_t code_point(std::string_view digits, size_t length, int base) const {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const bool valid = digits.size() == length && error == std::errc() && end == digits.data() + length;
    if (!valid || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("invalid escape in a string");
    return value;
  }

  void operation(std::string& open) {
    constexpr std::array<std::string_view, 25> kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                          "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                          ">",  "<",  "=",  ".",  ":",  "|",  ","};
    const auto* found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view o) { return starts(o, at_); });
    if (found == kOperators.end()) {
      fail(
          fmt::format("unexpected '{}'", core::printable(source_.substr(at_, core::decode_utf8(source_, at_).length))));
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(TokenKind::Operator, std::string(*found));
    advance(at_ + found->size());
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace folio::data::jinja
