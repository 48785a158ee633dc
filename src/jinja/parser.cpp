#include "jinja/parser.h"

#include <algorithm>

#include "jinja/expressions.h"

namespace folio::data::jinja {
namespace {

using Op = Expr::Op;
using Kind = Stmt::Kind;

class StatementParser : public ExpressionParser {
 public:
  explicit StatementParser(std::string_view source) : ExpressionParser(source) {}

  Block run() {
    Block block = body({});
    if (token().kind != TokenKind::End) fail(fmt::format("unexpected {}", shown()));
    return block;
  }

 private:
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
};

}  // namespace

Block parse(std::string_view source) { return StatementParser(source).run(); }

bool has_generation(const Block& program) {
  return std::any_of(program.begin(), program.end(), [](const auto& stmt) {
    return stmt->kind == Kind::Generation || std::any_of(stmt->blocks.begin(), stmt->blocks.end(), has_generation);
  });
}

}  // namespace folio::data::jinja
