// Regular expressions as trees, which the exercises `derivative` and `token_mask` use. There is nothing to write in
// this file. An expression matches a set of byte strings.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace folio::exercises {

struct RegexNode;
using Regex = std::shared_ptr<const RegexNode>;

struct RegexNode {
  enum class Kind : uint8_t {
    Nothing,   ///< matches no text
    Empty,     ///< matches only the empty text
    Byte,      ///< matches one byte that is in `bytes`
    Sequence,  ///< matches `first` followed by `second`
    Choice,    ///< matches `first` or `second`
    Star       ///< matches any number of repetitions of `first`, including none
  };
  Kind kind = Kind::Nothing;
  std::bitset<256> bytes{};
  Regex first{}, second{};
};

inline bool is(const Regex& r, RegexNode::Kind kind) { return r->kind == kind; }

inline bool same(const Regex& a, const Regex& b) {
  if (a == b) return true;
  if (!a || !b) return false;
  return a->kind == b->kind && a->bytes == b->bytes && same(a->first, b->first) && same(a->second, b->second);
}

// The following functions create expressions. They simplify without changing what is matched: an expression without
// matches becomes Nothing, and derivatives stay small.
inline Regex nothing() { return std::make_shared<RegexNode>(RegexNode{.kind = RegexNode::Kind::Nothing}); }
inline Regex empty() { return std::make_shared<RegexNode>(RegexNode{.kind = RegexNode::Kind::Empty}); }
inline Regex one_of(const std::bitset<256>& bytes) {
  return std::make_shared<RegexNode>(RegexNode{.kind = RegexNode::Kind::Byte, .bytes = bytes});
}
inline Regex sequence(const Regex& first, const Regex& second) {
  using enum RegexNode::Kind;
  if (is(first, Nothing) || is(second, Empty)) return first;
  if (is(second, Nothing) || is(first, Empty)) return second;
  return std::make_shared<RegexNode>(RegexNode{.kind = Sequence, .first = first, .second = second});
}
inline Regex choice(const Regex& first, const Regex& second) {
  using enum RegexNode::Kind;
  if (is(first, Nothing) || same(first, second)) return second;
  if (is(second, Nothing)) return first;
  if (is(first, Choice)) return choice(first->first, choice(first->second, second));
  for (const RegexNode* rest = second.get(); rest->kind == Choice; rest = rest->second.get()) {
    if (same(first, rest->first) || same(first, rest->second)) return second;
  }
  return std::make_shared<RegexNode>(RegexNode{.kind = Choice, .first = first, .second = second});
}
inline Regex star(const Regex& first) {
  using enum RegexNode::Kind;
  if (is(first, Nothing) || is(first, Empty)) return empty();
  if (is(first, Star)) return first;
  return std::make_shared<RegexNode>(RegexNode{.kind = Star, .first = first});
}

/// Parses an expression: bytes, classes such as [a-z_], | * + ? and parentheses; \ escapes a byte.
class RegexReader {
 public:
  explicit RegexReader(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] Regex all() {
    const Regex r = choices();
    if (at_ < text_.size()) throw std::invalid_argument(text_ + ": a ) has no (");
    return r;
  }

 private:
  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] size_t take() {
    if (next_is('\\')) ++at_;
    if (at_ == text_.size()) throw std::invalid_argument(text_ + ": it ends too early");
    return static_cast<uint8_t>(text_[at_++]);
  }
  [[nodiscard]] Regex choices() {
    Regex r = parts();
    while (next_is('|')) {
      ++at_;
      r = choice(r, parts());
    }
    return r;
  }
  [[nodiscard]] Regex parts() {
    Regex r = empty();
    while (at_ < text_.size() && !next_is('|') && !next_is(')')) {
      Regex one = part();
      for (; next_is('*') || next_is('+') || next_is('?'); ++at_) {
        one = next_is('*') ? star(one) : next_is('+') ? sequence(one, star(one)) : choice(one, empty());
      }
      r = sequence(r, one);
    }
    return r;
  }
  [[nodiscard]] Regex part() {
    std::bitset<256> bytes;
    if (next_is('(')) {
      ++at_;
      Regex r = choices();
      if (!next_is(')')) throw std::invalid_argument(text_ + ": a ( has no )");
      ++at_;
      return r;
    }
    if (!next_is('[')) return one_of(bytes.set(take()));
    for (++at_; !next_is(']');) {
      const size_t low = take();
      size_t high = low;
      if (next_is('-')) {
        ++at_;
        high = take();
      }
      for (size_t byte = low; byte <= high; ++byte) bytes.set(byte);
    }
    ++at_;
    return one_of(bytes);
  }

  std::string text_;
  size_t at_ = 0;
};

inline Regex read_regex(const std::string& text) { return RegexReader(text).all(); }

}  // namespace folio::exercises
