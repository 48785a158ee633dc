// The base class of the template parser: it reads tokens and parses the expressions of Jinja's grammar.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"

namespace folio::data::jinja {

class ExpressionParser {
 protected:
  using Names = std::initializer_list<std::string_view>;
  using Op = Expr::Op;

  explicit ExpressionParser(std::string_view source) : tokens_(tokenize(source)) {}

  [[nodiscard]] const Token& token(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is(TokenKind kind, std::string_view text, size_t ahead = 0) const {
    return token(ahead).kind == kind && token(ahead).text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const { return is(TokenKind::Name, text); }
  [[nodiscard]] bool is_op(std::string_view text) const { return is(TokenKind::Operator, text); }
  [[nodiscard]] bool is_one_of(TokenKind kind, Names texts) const {
    return token().kind == kind && std::find(texts.begin(), texts.end(), token().text) != texts.end();
  }
  bool accept(bool it_is) {
    if (it_is) ++at_;
    return it_is;
  }
  bool accept_name(std::string_view text) { return accept(is_name(text)); }
  bool accept_op(std::string_view text) { return accept(is_op(text)); }

  [[noreturn]] void fail(std::string_view what) const { core::fail("line {}: {}", token().line, what); }
  [[nodiscard]] std::string shown() const {
    if (token().kind == TokenKind::End) return "end of the template";
    if (token().kind == TokenKind::BlockEnd) return "'%}'";
    if (token().kind == TokenKind::OutputEnd) return "'}}'";
    return fmt::format("'{}'", core::printable(token().text));
  }
  void expect_op(std::string_view text) {
    if (!accept_op(text)) fail(fmt::format("expected '{}', not {}", text, shown()));
  }
  void expect_name(std::string_view text) {
    if (!accept_name(text)) fail(fmt::format("expected '{}', not {}", text, shown()));
  }
  std::string name() {
    if (token().kind != TokenKind::Name) fail(fmt::format("expected a name, not {}", shown()));
    return tokens_[at_++].text;
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!accept(token().kind == kind)) fail(fmt::format("expected {}, not {}", what, shown()));
  }

  /// Increments the nesting depth until the returned object is destroyed. Throws core::Error at kMaxDepth.
  [[nodiscard]] Nested nested() {
    if (depth_ >= kMaxDepth) fail(fmt::format("nested deeper than {}", kMaxDepth));
    return Nested(depth_);
  }

  /// Parses one expression, or a tuple of several separated by commas. `with_condition` permits `a if b else c`.
  ExprPtr tuple(bool with_condition = true);
  ExprPtr expression();
  ExprPtr filter(ExprPtr value);   ///< parses a filter's name and arguments, and applies it to `value`
  ExprPtr filters(ExprPtr value);  ///< parses the filters, tests and calls that follow `value`

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;

 private:
  ExprPtr make(Expr expr);
  ExprPtr constant(Value value);
  ExprPtr text(std::string utf8);
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr operation(size_t level);
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr value);
  ExprPtr subscript();
  ExprPtr call(Op op, ExprPtr called, std::string name);
  ExprPtr test(ExprPtr value);
  ExprPtr integer();
  ExprPtr floating();
  void check_names(const Expr& expr) const;  ///< throws core::Error for an unknown filter or test
  template <typename... Parts>
  ExprPtr make(Op op, int line, std::string name, Parts... parts) {
    Expr expr{.op = op, .line = line, .name = std::move(name)};
    (expr.parts.push_back(std::move(parts)), ...);
    return make(std::move(expr));
  }
};

}  // namespace folio::data::jinja
