#include "jinja/expressions.h"

#include <charconv>
#include <cstdlib>

#include "jinja/builtins.h"

namespace folio::data::jinja {

ExprPtr ExpressionParser::integer() {
  std::string_view digits = token().text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    base = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) fail(fmt::format("{} is too large", shown()));
  ExprPtr result = constant({value});
  ++at_;
  return result;
}

ExprPtr ExpressionParser::floating() {
  const std::string& digits = token().text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) value = std::strtod(digits.c_str(), nullptr);  // out of range: strtod returns infinity or 0
  ExprPtr result = constant({value});
  ++at_;
  return result;
}

ExprPtr ExpressionParser::make(Expr expr) {
  for (const ExprPtr& part : expr.parts) expr.depth = std::max(expr.depth, part == nullptr ? 1 : part->depth + 1);
  if (expr.depth > kMaxDepth) fail(fmt::format("an expression is nested deeper than {}", kMaxDepth));
  return std::make_unique<const Expr>(std::move(expr));
}
ExprPtr ExpressionParser::constant(Value value) {
  return make({.op = Op::Const, .line = token().line, .value = std::move(value)});
}
ExprPtr ExpressionParser::text(std::string utf8) {
  Value value{std::make_shared<const Text>(from_utf8(utf8))};
  return make({.op = Op::Const, .line = token().line, .name = std::move(utf8), .value = std::move(value)});
}

ExprPtr ExpressionParser::tuple(bool with_condition) {
  const int line = token().line;
  ExprPtr first = with_condition ? expression() : disjunction();
  if (!is_op(",")) return first;
  Expr list{.op = Op::Tuple, .line = line};
  list.parts.push_back(std::move(first));
  while (accept_op(",")) {
    if (is_op(")") || token().kind == TokenKind::OutputEnd || token().kind == TokenKind::BlockEnd) break;
    list.parts.push_back(with_condition ? expression() : disjunction());
  }
  return make(std::move(list));
}

ExprPtr ExpressionParser::expression() {
  const Nested deeper = nested();
  const int line = token().line;
  ExprPtr value = disjunction();
  while (accept_name("if")) {
    ExprPtr condition = disjunction();
    ExprPtr other = accept_name("else") ? expression() : nullptr;
    value = make(Op::Condition, line, "", std::move(condition), std::move(value), std::move(other));
  }
  return value;
}

ExprPtr ExpressionParser::disjunction() {
  ExprPtr left = conjunction();
  while (is_name("or")) {
    const int line = tokens_[at_++].line;
    left = make(Op::Or, line, "", std::move(left), conjunction());
  }
  return left;
}

ExprPtr ExpressionParser::conjunction() {
  ExprPtr left = negation();
  while (is_name("and")) {
    const int line = tokens_[at_++].line;
    left = make(Op::And, line, "", std::move(left), negation());
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!is_name("not")) return comparison();
  const Nested deeper = nested();
  const int line = tokens_[at_++].line;
  return make(Op::Not, line, "", negation());
}

ExprPtr ExpressionParser::comparison() {
  Expr compared{.op = Op::Compare, .line = token().line};
  ExprPtr first = operation(0);
  while (true) {
    std::string op;
    if (is_one_of(TokenKind::Operator, {"==", "!=", "<", "<=", ">", ">="}) || is_name("in")) {
      op = tokens_[at_++].text;
    } else if (is_name("not") && is(TokenKind::Name, "in", 1)) {
      op = "not in";
      at_ += 2;
    } else {
      break;
    }
    if (compared.parts.empty()) compared.parts.push_back(std::move(first));
    compared.names.push_back(std::move(op));
    compared.parts.push_back(operation(0));
  }
  return compared.parts.empty() ? std::move(first) : make(std::move(compared));
}

// Parses binary operators, all left-associative. Level 0: + and -; level 1: ~; level 2: * / // %; level 3: **.
ExprPtr ExpressionParser::operation(size_t level) {
  constexpr size_t kLevels = 4;
  if (level == kLevels) return unary(true);
  ExprPtr left = operation(level + 1);
  while ((level == 0 && is_one_of(TokenKind::Operator, {"+", "-"})) || (level == 1 && is_op("~")) ||
         (level == 2 && is_one_of(TokenKind::Operator, {"*", "/", "//", "%"})) || (level == 3 && is_op("**"))) {
    const Token& op = tokens_[at_++];
    left = make(level == 1 ? Op::Concat : Op::Binary, op.line, op.text, std::move(left), operation(level + 1));
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const int line = token().line;
  ExprPtr value;
  if (is_op("-") || is_op("+")) {
    const Nested deeper = nested();
    std::string sign = tokens_[at_++].text;
    value = make(Op::Signed, line, std::move(sign), unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::primary() {
  const Token& t = token();
  switch (t.kind) {
    case TokenKind::Name:
      ++at_;
      if (t.text == "true" || t.text == "True") return constant({true});
      if (t.text == "false" || t.text == "False") return constant({false});
      if (t.text == "none" || t.text == "None") return constant({None{}});
      return make(Op::Name, t.line, t.text);
    case TokenKind::String: {
      std::string all;
      while (token().kind == TokenKind::String) all += tokens_[at_++].text;
      return text(std::move(all));
    }
    case TokenKind::Integer:
      return integer();
    case TokenKind::Float:
      return floating();
    default:
      break;
  }
  if (accept_op("(")) {
    ExprPtr value = is_op(")") ? make(Op::Tuple, t.line, "") : tuple();
    expect_op(")");
    return value;
  }
  if (accept_op("[")) {
    Expr list{.op = Op::List, .line = t.line};
    while (!accept_op("]")) {
      if (!list.parts.empty()) expect_op(",");
      if (accept_op("]")) break;
      list.parts.push_back(expression());
    }
    return make(std::move(list));
  }
  if (accept_op("{")) {
    Expr dict{.op = Op::Dict, .line = t.line};
    while (!accept_op("}")) {
      if (!dict.parts.empty()) expect_op(",");
      if (accept_op("}")) break;
      dict.parts.push_back(expression());
      expect_op(":");
      dict.parts.push_back(expression());
    }
    return make(std::move(dict));
  }
  fail(fmt::format("unexpected {}", shown()));
}

ExprPtr ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    const int line = token().line;
    if (accept_op(".")) {
      if (token().kind == TokenKind::Integer) {
        value = make(Op::Item, line, "", std::move(value), integer());
      } else {
        Expr attribute{.op = Op::Attribute, .line = line, .name = name()};
        attribute.value = {std::make_shared<const Text>(from_utf8(attribute.name))};
        attribute.parts.push_back(std::move(value));
        value = make(std::move(attribute));
      }
    } else if (accept_op("[")) {
      ExprPtr item = subscript();
      expect_op("]");
      value = make(Op::Item, line, "", std::move(value), std::move(item));
    } else if (is_op("(")) {
      value = call(Op::Call, std::move(value), "");
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::subscript() {
  const int line = token().line;
  const auto bound = [&] { return is_op(":") || is_op("]") ? nullptr : expression(); };
  ExprPtr begin = bound();
  if (begin != nullptr && !is_op(":")) return begin;
  expect_op(":");
  ExprPtr end = bound();
  ExprPtr step = accept_op(":") ? bound() : nullptr;
  return make(Op::Slice, line, "", std::move(begin), std::move(end), std::move(step));
}

// Parses the optional parenthesized arguments of a call, filter or test.
ExprPtr ExpressionParser::call(Op op, ExprPtr called, std::string name) {
  Expr expr{.op = op, .line = token().line, .name = std::move(name)};
  expr.parts.push_back(std::move(called));
  if (accept_op("(")) {
    while (!accept_op(")")) {
      if (expr.parts.size() > 1) expect_op(",");
      if (accept_op(")")) break;
      if (is_op("*") || is_op("**")) fail("calls with * or ** are not supported");
      if (token().kind == TokenKind::Name && is(TokenKind::Operator, "=", 1)) {
        expr.names.push_back(this->name());
        ++at_;
      } else if (!expr.names.empty()) {
        fail("a positional argument follows a keyword argument");
      }
      expr.parts.push_back(expression());
    }
  }
  return make(std::move(expr));
}

// Throws core::Error for an unknown filter or test, including those named by constants: map("upper"), select("odd").
void ExpressionParser::check_names(const Expr& expr) const {
  const auto check = [&](bool is_test, const std::string& name) {
    if ((is_test ? find_test(name) : find_filter(name)) != nullptr) return;
    core::fail("line {}: no {} named '{}'", expr.line, is_test ? "test" : "filter", core::printable(name));
  };
  check(expr.op == Op::Test, expr.name);
  const bool of_attribute = expr.name == "selectattr" || expr.name == "rejectattr";
  const bool selects = of_attribute || expr.name == "select" || expr.name == "reject";
  const size_t place = of_attribute ? 2 : 1;  // index in parts of the argument that names a filter or test
  if (expr.op == Op::Test || !(selects || expr.name == "map") || expr.parts.size() - expr.names.size() <= place) return;
  const Expr& named = *expr.parts[place];
  if (named.op == Op::Const && named.value.text() != nullptr) check(selects, named.name);
}

ExprPtr ExpressionParser::filter(ExprPtr value) {
  std::string filter_name = name();
  ExprPtr result = call(Op::Filter, std::move(value), std::move(filter_name));
  check_names(*result);
  return result;
}

ExprPtr ExpressionParser::filters(ExprPtr value) {
  while (true) {
    if (accept_op("|")) {
      value = filter(std::move(value));
    } else if (is_op("(")) {
      value = call(Op::Call, std::move(value), "");
    } else if (is_name("is")) {
      value = test(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::test(ExprPtr value) {
  const int line = tokens_[at_++].line;
  const bool negated = accept_name("not");
  std::string test_name = name();
  ExprPtr result;
  const bool has_argument =
      token().kind == TokenKind::String || token().kind == TokenKind::Integer || token().kind == TokenKind::Float ||
      is_op("[") || is_op("{") ||
      (token().kind == TokenKind::Name && !is_one_of(TokenKind::Name, {"else", "or", "and", "is"}));
  if (is_name("is")) fail("tests cannot be chained");
  if (has_argument) {
    result = make(Op::Test, line, std::move(test_name), std::move(value), postfix(primary()));
  } else {
    result = call(Op::Test, std::move(value), std::move(test_name));
  }
  check_names(*result);
  return negated ? make(Op::Not, line, "", std::move(result)) : std::move(result);
}

}  // namespace folio::data::jinja
