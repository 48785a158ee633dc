#include "jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "core/error.h"
#include "jinja/builtins.h"
#include "jinja/lexer.h"

namespace folio::data::jinja {
namespace {

using Op = Expr::Op;
using Kind = Stmt::Kind;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Block run() {
    Block block = body({});
    if (token().kind != TokenKind::End) fail(fmt::format("unexpected {}", shown()));
    return block;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

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

  // Increments the nesting depth until the returned object is destroyed. Throws core::Error at kMaxDepth.
  [[nodiscard]] Nested nested() {
    if (depth_ >= kMaxDepth) fail(fmt::format("nested deeper than {}", kMaxDepth));
    return Nested(depth_);
  }

  // Parses up to a tag whose name is one of `ends`; that name is the next token. If `ends` is empty, parses to the end
  // of the template.
  Block body(Names ends) {
    const Nested deeper = nested();
    Block block;
    while (token().kind != TokenKind::End) {
      const int line = token().line;
      Stmt stmt;
      if (token().kind == TokenKind::Data) {
        stmt.text = {std::make_shared<const Text>(from_utf8(tokens_[at_++].text))};
      } else if (accept(token().kind == TokenKind::OutputBegin)) {
        stmt.kind = Kind::Output;
        stmt.exprs.push_back(tuple());
        expect(TokenKind::OutputEnd, "'}}'");
      } else {
        expect(TokenKind::BlockBegin, "a block");
        if (is_one_of(TokenKind::Name, ends)) return block;
        stmt = statement();
        expect(TokenKind::BlockEnd, "'%}'");
      }
      stmt.line = line;
      block.push_back(std::make_unique<const Stmt>(std::move(stmt)));
    }
    if (ends.size() > 0) fail(fmt::format("missing end of a block: expected '{}'", *(ends.end() - 1)));
    return block;
  }

  // Parses a block's body, from the end of its first tag up to a tag whose name is in `ends`.
  Block inner(Names ends) {
    expect(TokenKind::BlockEnd, "'%}'");
    return body(ends);
  }
  Block inner(std::string_view end) {
    Block block = inner({end});
    ++at_;
    return block;
  }

  Stmt statement() {
    const std::string tag = name();
    if (tag == "if") return if_block();
    if (tag == "for") return for_block();
    if (tag == "set") return set_block();
    if (tag == "macro") return macro();
    if (tag == "call") return call_block();
    if (tag == "with") return with_block();
    if (tag == "filter") {
      Stmt stmt{.kind = Kind::Filter};
      stmt.exprs.push_back(filters(filter(filtered_text())));
      stmt.blocks.push_back(inner("endfilter"));
      return stmt;
    }
    if (tag == "print") {
      Stmt stmt{.kind = Kind::Output};
      do {
        stmt.exprs.push_back(expression());
      } while (accept_op(","));
      return stmt;
    }
    if (tag == "break") return {.kind = Kind::Break};
    if (tag == "continue") return {.kind = Kind::Continue};
    if (tag == "generation") {  // contains an answer of the assistant
      Stmt stmt{.kind = Kind::Generation};
      stmt.blocks.push_back(inner("endgeneration"));
      return stmt;
    }
    --at_;
    fail(fmt::format("the block {} is not supported", shown()));
  }

  Stmt if_block() {
    Stmt stmt{.kind = Kind::If};
    do {
      stmt.exprs.push_back(tuple(false));
      stmt.blocks.push_back(inner({"elif", "else", "endif"}));
    } while (accept_name("elif"));
    if (accept_name("else")) stmt.blocks.push_back(inner({"endif"}));
    expect_name("endif");
    return stmt;
  }

  Stmt for_block() {
    Stmt stmt{.kind = Kind::For};
    stmt.targets.push_back(target("in", false));
    expect_name("in");
    stmt.exprs.push_back(tuple(false));
    stmt.exprs.push_back(accept_name("if") ? expression() : nullptr);
    stmt.recursive = accept_name("recursive");
    stmt.blocks.push_back(inner({"else", "endfor"}));
    if (accept_name("else")) stmt.blocks.push_back(inner({"endfor"}));
    expect_name("endfor");
    return stmt;
  }

  Stmt set_block() {
    Stmt stmt{.kind = Kind::Set};
    stmt.targets.push_back(target("", true));
    if (accept_op("=")) {
      stmt.exprs.push_back(tuple());
      return stmt;
    }
    stmt.kind = Kind::SetBlock;
    stmt.exprs.push_back(filters(filtered_text()));
    stmt.blocks.push_back(inner("endset"));
    return stmt;
  }

  Stmt macro() {
    Stmt stmt{.kind = Kind::Macro};
    stmt.signature.name = name();
    signature(stmt.signature);
    stmt.blocks.push_back(inner("endmacro"));
    return stmt;
  }

  [[nodiscard]] ExprPtr filtered_text() const {
    return std::make_unique<const Expr>(Expr{.op = Op::Name, .line = token().line, .name = kFilteredText});
  }

  Stmt call_block() {
    Stmt stmt{.kind = Kind::Call};
    stmt.signature.name = "caller";
    if (is_op("(")) signature(stmt.signature);
    stmt.exprs.push_back(expression());
    if (stmt.exprs[0]->op != Op::Call) fail("expected a call");
    stmt.blocks.push_back(inner("endcall"));
    return stmt;
  }

  Stmt with_block() {
    Stmt stmt{.kind = Kind::With};
    while (token().kind != TokenKind::BlockEnd) {
      if (!stmt.targets.empty()) expect_op(",");
      stmt.targets.push_back({.names = {variable()}});
      expect_op("=");
      stmt.exprs.push_back(expression());
    }
    stmt.blocks.push_back(inner("endwith"));
    return stmt;
  }

  void signature(Signature& result) {
    expect_op("(");
    while (!is_op(")")) {
      if (!result.parameters.empty()) expect_op(",");
      result.parameters.push_back(variable());
      if (accept_op("=")) {
        result.defaults.push_back(expression());
      } else if (!result.defaults.empty()) {
        fail("a parameter without a default follows a parameter with a default");
      }
    }
    expect_op(")");
  }

  std::string variable() {
    if (is_one_of(TokenKind::Name, {"true", "false", "True", "False", "none", "None"})) {
      fail(fmt::format("cannot assign to {}", shown()));
    }
    return name();
  }

  Target target(std::string_view end, bool takes_attribute) {
    const bool in_parentheses = accept_op("(");
    Target result{.names = {variable()}};
    if (takes_attribute && !in_parentheses && accept_op(".")) {
      result.attribute = name();
      return result;
    }
    while (accept_op(",")) {
      result.unpacks = true;
      if (is_op("=") || is_op(")") || (!end.empty() && is_name(end))) break;
      result.names.push_back(variable());
    }
    if (in_parentheses) expect_op(")");
    return result;
  }

  // The functions below parse expressions of Jinja's grammar.

  template <typename... Parts>
  ExprPtr make(Op op, int line, std::string name, Parts... parts) {
    Expr expr{.op = op, .line = line, .name = std::move(name)};
    (expr.parts.push_back(std::move(parts)), ...);
    return make(std::move(expr));
  }
  ExprPtr make(Expr expr) {
    for (const ExprPtr& part : expr.parts) expr.depth = std::max(expr.depth, part == nullptr ? 1 : part->depth + 1);
    if (expr.depth > kMaxDepth) fail(fmt::format("an expression is nested deeper than {}", kMaxDepth));
    return std::make_unique<const Expr>(std::move(expr));
  }
  ExprPtr constant(Value value) { return make({.op = Op::Const, .line = token().line, .value = std::move(value)}); }
  ExprPtr text(std::string utf8) {
    Value value{std::make_shared<const Text>(from_utf8(utf8))};
    return make({.op = Op::Const, .line = token().line, .name = std::move(utf8), .value = std::move(value)});
  }

  ExprPtr integer() {
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

  ExprPtr floating() {
    const std::string& digits = token().text;
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) {
      value = std::strtod(digits.c_str(), nullptr);  // out of range: strtod returns infinity or 0
    }
    ExprPtr result = constant({value});
    ++at_;
    return result;
  }

  // Parses one expression, or a tuple of several separated by commas. `with_condition` permits `a if b else c`.
  ExprPtr tuple(bool with_condition = true) {
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

  ExprPtr expression() {
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

  ExprPtr disjunction() {
    ExprPtr left = conjunction();
    while (is_name("or")) {
      const int line = tokens_[at_++].line;
      left = make(Op::Or, line, "", std::move(left), conjunction());
    }
    return left;
  }

  ExprPtr conjunction() {
    ExprPtr left = negation();
    while (is_name("and")) {
      const int line = tokens_[at_++].line;
      left = make(Op::And, line, "", std::move(left), negation());
    }
    return left;
  }

  ExprPtr negation() {
    if (!is_name("not")) return comparison();
    const Nested deeper = nested();
    const int line = tokens_[at_++].line;
    return make(Op::Not, line, "", negation());
  }

  ExprPtr comparison() {
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
  ExprPtr operation(size_t level) {
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

  ExprPtr unary(bool with_filter) {
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

  ExprPtr primary() {
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

  ExprPtr postfix(ExprPtr value) {
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

  ExprPtr subscript() {
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
  ExprPtr call(Op op, ExprPtr called, std::string name) {
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
  void check_names(const Expr& expr) const {
    const auto check = [&](bool is_test, const std::string& name) {
      if ((is_test ? find_test(name) : find_filter(name)) != nullptr) return;
      core::fail("line {}: no {} named '{}'", expr.line, is_test ? "test" : "filter", core::printable(name));
    };
    check(expr.op == Op::Test, expr.name);
    const bool of_attribute = expr.name == "selectattr" || expr.name == "rejectattr";
    const bool selects = of_attribute || expr.name == "select" || expr.name == "reject";
    const size_t place = of_attribute ? 2 : 1;  // index in parts of the argument that names a filter or test
    if (expr.op == Op::Test || !(selects || expr.name == "map") || expr.parts.size() - expr.names.size() <= place) {
      return;
    }
    const Expr& named = *expr.parts[place];
    if (named.op == Op::Const && named.value.text() != nullptr) check(selects, named.name);
  }

  // Parses a filter's name and arguments, and applies it to `value`.
  ExprPtr filter(ExprPtr value) {
    std::string filter_name = name();
    ExprPtr result = call(Op::Filter, std::move(value), std::move(filter_name));
    check_names(*result);
    return result;
  }

  // Parses the filters, tests and calls that follow `value`.
  ExprPtr filters(ExprPtr value) {
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

  ExprPtr test(ExprPtr value) {
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return Parser(source).run(); }

bool has_generation(const Block& program) {
  return std::any_of(program.begin(), program.end(), [](const auto& stmt) {
    return stmt->kind == Kind::Generation || std::any_of(stmt->blocks.begin(), stmt->blocks.end(), has_generation);
  });
}

}  // namespace folio::data::jinja
