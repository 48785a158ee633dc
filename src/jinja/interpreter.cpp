#include "jinja/interpreter.h"

#include <deque>

#include "core/error.h"
#include "jinja/builtins.h"
#include "jinja/scope.h"

namespace folio::data::jinja {

struct Macro {
  const Signature* signature;
  const Block* body;
  Scope* scope;  ///< scope in which the macro was defined
};

namespace {

using Op = Expr::Op;
using Kind = Stmt::Kind;

constexpr int kMaxEvaluationDepth = 400;
constexpr size_t kScopeSteps = 4;    // budget steps charged for a scope, which uses memory until the rendering ends
constexpr size_t kNamesPerStep = 8;  // name comparisons in lookups, per budget step

enum class Flow { Next, Break, Continue };

class Interpreter {
 public:
  Interpreter(Session& session, Variables variables, std::vector<Generated>* generated)
      : session_(session), generated_(generated) {
    root_.variables.assign(std::make_move_iterator(variables.begin()), std::make_move_iterator(variables.end()));
  }

  Text run(const Block& program) {
    try {
      return captured(program, root_);
    } catch (const core::Error& error) {
      if (const auto* stopped = dynamic_cast<const core::WorkStopped*>(&error); stopped && stopped->is_complete())
        throw;
      core::fail("line {}: {}", line_, error.what());
    }
  }

 private:
  Scope& new_scope(Scope& parent) {
    session_.spend(kScopeSteps);
    return scopes_.emplace_back(Scope{.parent = &parent});
  }

  // Increments the nesting depth until the returned object is destroyed. Throws core::Error at the limit.
  [[nodiscard]] Nested nested() {
    if (depth_ >= kMaxEvaluationDepth) core::fail("nested deeper than {}", kMaxEvaluationDepth);
    return Nested(depth_);
  }

  // Returns the text that run() outputs.
  template <typename Run>
  Text captured(Run&& run) {
    Text text;
    Text* const outer = std::exchange(out_, &text);
    if (all_ == nullptr) all_ = &text;
    run();
    out_ = outer;
    return text;
  }
  Text captured(const Block& block, Scope& scope) {
    return captured([&] {
      if (run(block, scope) != Flow::Next) core::fail("break and continue are only allowed in a loop");
    });
  }

  Flow run(const Block& block, Scope& scope) {
    const Nested deeper = nested();
    for (const auto& stmt : block) {
      const Flow flow = run(*stmt, scope);
      if (flow != Flow::Next) return flow;
    }
    return Flow::Next;
  }

  Flow run(const Stmt& s, Scope& scope) {
    session_.spend(1);
    line_ = s.line;
    switch (s.kind) {
      case Kind::Text:
        session_.append(*out_, *s.text.text());
        break;
      case Kind::Output:
        for (const ExprPtr& expr : s.exprs) write(session_, *out_, evaluate(*expr, scope));
        break;
      case Kind::If:
        for (size_t i = 0; i < s.blocks.size(); ++i) {
          if (i == s.exprs.size() || truthy(evaluate(*s.exprs[i], scope))) return run(s.blocks[i], scope);
        }
        break;
      case Kind::For:
        return loop(s, scope, evaluate(*s.exprs[0], scope), 0);
      case Kind::Set:
        assign(s.targets[0], evaluate(*s.exprs[0], scope), scope);
        break;
      case Kind::SetBlock:
        assign(s.targets[0], filtered(s, scope), scope);
        break;
      case Kind::Filter:
        write(session_, *out_, filtered(s, scope));
        break;
      case Kind::With: {
        Scope& inner = new_scope(scope);
        for (size_t i = 0; i < s.targets.size(); ++i) inner.set(s.targets[i].names[0], evaluate(*s.exprs[i], scope));
        return run(s.blocks[0], inner);
      }
      case Kind::Call:
        write(session_, *out_, call(*s.exprs[0], scope, new_macro(s, scope)));
        break;
      case Kind::Macro:
        scope.set(s.signature.name, new_macro(s, scope));
        break;
      case Kind::Generation:
        return generation(s, scope);
      case Kind::Break:
        return Flow::Break;
      case Kind::Continue:
        return Flow::Continue;
    }
    return Flow::Next;
  }

  Flow generation(const Stmt& s, Scope& scope) {
    if (generated_ != nullptr && out_ != all_) core::fail("generation in a macro or a set is not supported");
    const size_t begin = out_->size();
    const Flow flow = run(s.blocks[0], new_scope(scope));
    if (generated_ != nullptr && out_->size() > begin) generated_->push_back({.begin = begin, .end = out_->size()});
    return flow;
  }

  // Returns the text of a {% filter %} or {% set %} block: its rendered body, to which the tag's filters are applied.
  Value filtered(const Stmt& s, Scope& scope) {
    Scope& inner = new_scope(scope);
    inner.set(kFilteredText, session_.text(captured(s.blocks[0], new_scope(scope))));
    return evaluate(*s.exprs[0], inner);
  }

  Flow loop(const Stmt& s, Scope& outer, const Value& sequence, int64_t depth) {
    Loop& loop = loops_.emplace_back(Loop{.items = items_of(session_, sequence), .accepts = {}, .depth0 = depth});
    if (s.recursive) {
      loop.call = [this, &s, &outer, depth](const Value& items) {
        return session_.text(captured([&] { static_cast<void>(this->loop(s, outer, items, depth + 1)); }));
      };
    }
    if (s.exprs[1] != nullptr) {
      loop.accepts = [this, &s, &outer](const Value& item) {
        Scope& scope = new_scope(outer);
        assign(s.targets[0], item, scope);
        return truthy(evaluate(*s.exprs[1], scope));
      };
    }
    bool was_empty = true;  // runs the else branch; as in Jinja, only an iteration without break or continue clears it
    while (loop.advance()) {
      Scope& scope = new_scope(outer);
      scope.set("loop", {&loop});
      assign(s.targets[0], loop.current, scope);
      const Flow flow = run(s.blocks[0], scope);
      if (flow == Flow::Break) break;
      if (flow == Flow::Next) was_empty = false;
    }
    loop.items.clear();
    loop.call = {};
    return was_empty && s.blocks.size() > 1 ? run(s.blocks[1], new_scope(outer)) : Flow::Next;
  }

  void assign(const Target& target, Value value, Scope& scope) {
    if (!target.attribute.empty()) {
      const Value* space = scope.find(target.names[0]);
      if (space == nullptr || !space->is<Namespace*>()) core::fail("'{}' is not a namespace", target.names[0]);
      std::get<Namespace*>(space->data)->attributes[target.attribute] = std::move(value);
    } else if (!target.unpacks) {
      scope.set(target.names[0], std::move(value));
    } else {
      std::vector<Value> items = items_of(session_, value);
      if (items.size() != target.names.size()) {
        core::fail("cannot unpack {} values into {} names", items.size(), target.names.size());
      }
      for (size_t i = 0; i < items.size(); ++i) scope.set(target.names[i], std::move(items[i]));
    }
  }

  Value new_macro(const Stmt& s, Scope& scope) {
    const Macro& macro =
        macros_.emplace_back(Macro{.signature = &s.signature, .body = s.blocks.data(), .scope = &scope});
    return {Function{.builtin = nullptr, .macro = &macro}};
  }

  Value evaluate(const Expr& e, Scope& scope) {
    const Nested deeper = nested();
    session_.spend(1);
    line_ = e.line;
    switch (e.op) {
      case Op::Const:
        return e.value;
      case Op::Name:
        return variable(e, scope);
      case Op::List:
      case Op::Tuple:
        return session_.list(parts(e, 0, scope), e.op == Op::Tuple);
      case Op::Dict:
        return dict(e, scope);
      case Op::Attribute:
        return member(evaluate(*e.parts[0], scope), e.value, e, true);
      case Op::Item:
        return item(e, scope);
      case Op::Call:
        return call(e, scope);
      case Op::Filter:
      case Op::Test:
        return applied(e, scope);
      case Op::Not:
        return {!truthy(evaluate(*e.parts[0], scope))};
      case Op::Signed:
        return with_sign(e.name, evaluate(*e.parts[0], scope));
      case Op::And:
      case Op::Or: {
        Value left = evaluate(*e.parts[0], scope);
        return truthy(left) == (e.op == Op::And) ? evaluate(*e.parts[1], scope) : left;
      }
      case Op::Compare:
        return compare(e, scope);
      case Op::Concat:
        return concatenated(e, scope);
      case Op::Condition:
        if (truthy(evaluate(*e.parts[0], scope))) return evaluate(*e.parts[1], scope);
        return e.parts[2] == nullptr ? Value{} : evaluate(*e.parts[2], scope);
      default: {
        const std::vector<Value> operands = parts(e, 0, scope);
        return operation(session_, e.name, operands[0], operands[1]);
      }
    }
  }

  std::vector<Value> parts(const Expr& e, size_t from, Scope& scope) {
    std::vector<Value> values;
    for (size_t i = from; i < e.parts.size(); ++i) values.push_back(evaluate(*e.parts[i], scope));
    line_ = e.line;
    return values;
  }

  Value variable(const Expr& e, const Scope& scope) {
    size_t n_compared = 0;
    const Value* found = scope.find(e.name, &n_compared);
    session_.spend(n_compared / kNamesPerStep);
    if (found != nullptr) return *found;
    if (const Builtin* global = find_global(e.name)) return {Function{.builtin = global}};
    return {Undefined{e.name}};
  }

  Value dict(const Expr& e, Scope& scope) {
    std::vector<Value> values = parts(e, 0, scope);
    std::vector<std::pair<Value, Value>> pairs;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      pairs.emplace_back(std::move(values[i]), std::move(values[i + 1]));
    return session_.dict(std::move(pairs));
  }

  // Evaluates object.name or object[key]. An undefined result keeps the name for error messages.
  Value member(const Value& object, const Value& key, const Expr& e, bool is_attribute) {
    line_ = e.line;
    Value value{};
    auto* const* loop = std::get_if<Loop*>(&object.data);
    if (loop != nullptr && key.text() != nullptr) value = loop_member(**loop, to_utf8(*key.text()));
    if (value.is_undefined()) {
      value =
          is_attribute && !object.is_undefined() ? attribute_of(session_, object, key) : item_of(session_, object, key);
    }
    if (value.is_undefined()) {
      if (is_attribute || e.parts[1]->op == Op::Const) {
        value.data = Undefined{is_attribute ? std::string_view(e.name) : std::string_view(e.parts[1]->name)};
      } else {
        value.data = Undefined{"an item"};
      }
    }
    return value;
  }

  Value item(const Expr& e, Scope& scope) {
    Value object = evaluate(*e.parts[0], scope);
    const Expr& key = *e.parts[1];
    if (key.op != Op::Slice) return member(object, evaluate(key, scope), e, false);
    const auto bound = [&](size_t i) {
      return key.parts[i] == nullptr ? Value{None{}} : evaluate(*key.parts[i], scope);
    };
    const Value begin = bound(0);
    const Value end = bound(1);
    const Value step = bound(2);
    line_ = e.line;
    return slice_of(session_, object, begin, end, step);
  }

  // Returns a value of the variable `loop`, or undefined for other names, such as those of its methods.
  static Value loop_member(Loop& loop, std::string_view name) {
    if (name == "index") return {loop.index0 + 1};
    if (name == "index0") return {loop.index0};
    if (name == "first") return {loop.index0 == 0};
    if (name == "last") return {!loop.peek().has_value()};
    if (name == "previtem") return loop.index0 == 0 ? Value{} : loop.before;
    if (name == "nextitem") return loop.peek().value_or(Value{});
    if (name == "length") return {loop.length()};
    if (name == "revindex") return {loop.length() - loop.index0};
    if (name == "revindex0") return {loop.length() - loop.index0 - 1};
    if (name == "depth") return {loop.depth0 + 1};
    if (name == "depth0") return {loop.depth0};
    return {};
  }

  Arguments arguments(const Expr& e, Scope& scope) { return {.values = parts(e, 1, scope), .names = e.names}; }

  // Evaluates a call. `caller` is the macro of a {% call %} block, or undefined.
  Value call(const Expr& e, Scope& scope, const Value& caller = {}) {
    const Value called = evaluate(*e.parts[0], scope);
    const Arguments given = arguments(e, scope);
    if (auto* const* loop = std::get_if<Loop*>(&called.data); loop != nullptr && (*loop)->call) {
      const auto again = (*loop)->call;  // a copy: the loop may end during the call
      return again(*bind(given, {"iterable"}, 1)[0]);
    }
    const auto* function = std::get_if<Function>(&called.data);
    if (const auto* undefined = std::get_if<Undefined>(&called.data)) {
      core::fail("no {} named '{}'", e.parts[0]->op == Op::Attribute ? "method" : "function", undefined->name);
    }
    if (function == nullptr) core::fail("'{}' object is not callable", type_name(called));
    if (function->macro != nullptr) return call_macro(*function->macro, given, caller);
    if (!caller.is_undefined()) core::fail("a call block requires a macro");
    return function->builtin->call(session_, function->self == nullptr ? Value{} : *function->self, given);
  }

  Value call_macro(const Macro& macro, const Arguments& given, const Value& caller) {
    const Signature& signature = *macro.signature;
    const std::vector<std::string_view> names(signature.parameters.begin(), signature.parameters.end());
    const std::vector<const Value*> bound = given.bind(names, 0);
    const size_t first_default = names.size() - signature.defaults.size();
    Scope& scope = new_scope(*macro.scope);
    if (!caller.is_undefined()) scope.set("caller", caller);
    for (size_t i = 0; i < names.size(); ++i) {
      if (bound[i] != nullptr) {
        scope.set(names[i], *bound[i]);
      } else {
        scope.set(names[i], i < first_default ? Value{Undefined{names[i]}}
                                              : evaluate(*signature.defaults[i - first_default], scope));
      }
    }
    return session_.text(captured(*macro.body, scope));
  }

  Value applied(const Expr& e, Scope& scope) {
    const Builtin* builtin = e.op == Op::Test ? find_test(e.name) : find_filter(e.name);  // known: the parser checks it
    const Value value = evaluate(*e.parts[0], scope);
    const Arguments given = arguments(e, scope);
    return builtin->call(session_, value, given);
  }

  Value compare(const Expr& e, Scope& scope) {
    Value left = evaluate(*e.parts[0], scope);
    for (size_t i = 0; i < e.names.size(); ++i) {
      Value right = evaluate(*e.parts[i + 1], scope);
      line_ = e.line;
      if (!holds(e.names[i], left, right)) return {false};
      left = std::move(right);
    }
    return {true};
  }

  bool holds(std::string_view op, const Value& a, const Value& b) {
    if (op == "==") return equal(session_, a, b);
    if (op == "!=") return !equal(session_, a, b);
    if (op == "<") return less(session_, a, b);
    if (op == ">") return less(session_, b, a);
    if (op == "in" || op == "not in") return contains(session_, b, a) == (op == "in");
    return op == "<=" ? less(session_, a, b) || equal(session_, a, b) : less(session_, b, a) || equal(session_, a, b);
  }

  Value concatenated(const Expr& e, Scope& scope) {
    Text text;
    for (const Value& value : parts(e, 0, scope)) write(session_, text, value);
    return session_.text(std::move(text));
  }

  Session& session_;
  Scope root_;
  std::deque<Scope> scopes_;  // kept until the rendering ends, because macros refer to them
  std::deque<Loop> loops_;
  std::deque<Macro> macros_;
  Text* out_ = nullptr;
  const Text* all_ = nullptr;  // the result of the rendering, as opposed to that of a macro or block
  std::vector<Generated>* generated_;
  int depth_ = 0;
  int line_ = 0;
};

}  // namespace

Text render(const Block& program, Session& session, Variables variables, std::vector<Generated>* generated) {
  return Interpreter(session, std::move(variables), generated).run(program);
}

}  // namespace folio::data::jinja
