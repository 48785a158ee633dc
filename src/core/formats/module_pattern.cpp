#include "core/formats/module_pattern.h"

#include <vector>

#include "core/error.h"

namespace folio::core {
namespace {

constexpr int kDeepest = 32;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Parses and matches an expression in one pass. Each part of the expression maps the set of positions in the text where
// it may begin to the set of positions where it may end.
class Matcher {
 public:
  using Places = std::vector<bool>;  ///< set of positions in the text: one flag per position

  Matcher(std::string_view key, std::string_view text, const std::string& where, const WorkBudget& budget)
      : key_(key), text_(text), where_(where), budget_(budget) {}

  [[nodiscard]] Places match(const Places& from) {
    Places to = choice(from);
    if (at_ < key_.size()) reject();
    return to;
  }

 private:
  [[noreturn]] void reject() const {
    fail("{}: the pattern {} has unsupported syntax at character {}; spell out the module names", where_,
         printable(key_, 80), at_ + 1);
  }
  [[nodiscard]] bool is_at(char c) const { return at_ < key_.size() && key_[at_] == c; }
  char next() {
    if (at_ == key_.size()) reject();
    return key_[at_++];
  }

  Places choice(const Places& from) {
    if (++depth_ > kDeepest) reject();
    Places all = sequence(from);
    while (is_at('|')) {
      ++at_;
      merge(all, sequence(from));
    }
    --depth_;
    return all;
  }

  Places sequence(Places places) {
    while (at_ < key_.size() && key_[at_] != '|' && key_[at_] != ')') places = repeated(places);
    return places;
  }

  Places repeated(const Places& from) {
    const size_t begin = at_;
    Places to = atom(from);
    if (!is_at('*') && !is_at('+') && !is_at('?')) return to;
    const size_t after = at_ + 1;
    const char mark = key_[at_];
    Places all = to;
    for (bool grows = mark != '?'; grows;) {
      at_ = begin;
      grows = merge(all, atom(all));
    }
    if (mark != '+') merge(all, from);
    at_ = after;
    if (is_at('*') || is_at('+') || is_at('?')) reject();
    return all;
  }

  Places atom(const Places& from) {
    budget_.spend(from.size());
    switch (const char c = next()) {
      case '(': {
        if (is_at('?')) {
          ++at_;
          if (next() != ':') reject();
        }
        Places to = choice(from);
        if (next() != ')') reject();
        return to;
      }
      case '[':
        return in_class(from);
      case '.':
        return step(from, [](char) { return true; });
      case '^':
        return only(from, 0);
      case '$':
        return only(from, text_.size());
      case '\\': {
        const char escaped = next();
        if (escaped == 'd') return step(from, is_digit);
        if (escaped == 'w') return step(from, is_word);
        if (is_word(escaped)) reject();
        return step(from, [&](char t) { return t == escaped; });
      }
      case '{':
      case '*':
      case '+':
      case '?':
        --at_;
        reject();
      default:
        return step(from, [&](char t) { return t == c; });
    }
  }

  // Matches a character class after its "[". Special characters are literal in a class.
  Places in_class(const Places& from) {
    const bool is_negated = is_at('^');
    if (is_negated) ++at_;
    std::vector<bool> has(256, false);
    for (bool is_first = true; is_first || !is_at(']'); is_first = false) {
      const char low = next();
      if (low == '\\' || (low == '[' && is_at(':'))) reject();
      const bool is_range = is_at('-') && at_ + 1 < key_.size() && key_[at_ + 1] != ']';
      if (is_range) ++at_;
      const char high = is_range ? next() : low;
      if (high < low) reject();
      for (int c = static_cast<uint8_t>(low); c <= static_cast<uint8_t>(high); ++c) has[static_cast<size_t>(c)] = true;
    }
    ++at_;
    return step(from, [&](char t) { return has[static_cast<uint8_t>(t)] != is_negated; });
  }

  template <typename Fits>
  Places step(const Places& from, Fits&& fits) {
    Places to(from.size(), false);
    for (size_t i = 0; i < text_.size(); ++i) to[i + 1] = from[i] && fits(text_[i]);
    return to;
  }

  static Places only(const Places& from, size_t place) {
    Places to(from.size(), false);
    to[place] = from[place];
    return to;
  }
  /// Adds the positions in `more` to the set `to`. Returns true if `to` changed.
  static bool merge(Places& to, const Places& more) {
    const Places before = to;
    for (size_t i = 0; i < to.size(); ++i) to[i] = to[i] || more[i];
    return to != before;
  }

  std::string_view key_;
  std::string_view text_;
  const std::string& where_;
  const WorkBudget& budget_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool names_module(std::string_view key, std::string_view module, const std::string& where, const WorkBudget& budget) {
  Matcher::Places from(module.size() + 1, false);
  for (size_t i = 0; i < from.size(); ++i) from[i] = i == 0 || module[i - 1] == '.';
  try {
    return Matcher(key, module, where, budget).match(from).back();
  } catch (const TooMuchWork&) {
    fail("{}: matching the patterns up to {} needs too many steps; use shorter or fewer patterns", where,
         printable(key, 80));
  }
}

}  // namespace folio::core
