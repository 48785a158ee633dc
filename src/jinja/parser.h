// Parses a Jinja template into a tree. The tags include, import, extends and block, and calls with * or **, are not
// supported; an error names them. Unknown filters and tests are errors at parse time, not at execution.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace folio::data::jinja {

inline constexpr int kMaxDepth = 100;  ///< maximum nesting depth of expressions and blocks

/// Increments a nesting depth while the object exists.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(depth) { ++depth_; }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Expr {
  // clang-format off
  enum class Op { Const, Name, List, Tuple, Dict, Attribute, Item, Slice, Call, Filter, Test, Not, Signed,
                  And, Or, Compare, Binary, Concat, Condition };
  // clang-format on
  Op op = Op::Const;
  int line = 0;
  int depth = 1;
  std::string name{};                ///< name of a variable, attribute, filter or test; an operator; a string in UTF-8
  Value value{};                     ///< value of a constant; an attribute's name as a string
  std::vector<ExprPtr> parts{};      ///< operands, or the callee and its arguments; null for an omitted operand
  std::vector<std::string> names{};  ///< names of the last (keyword) arguments; operators of a comparison
};

struct Target {
  std::vector<std::string> names;  ///< one variable, or several into which a sequence is unpacked
  bool unpacks = false;
  std::string attribute{};  ///< attribute of a namespace, as in ns.x; empty if there is none
};

struct Stmt;
using Block = std::vector<std::unique_ptr<const Stmt>>;

/// Name of the variable that holds a {% filter %} block's text: a space, which templates can't use as a name.
inline constexpr const char* kFilteredText = " ";

/// A macro's name and parameters.
struct Signature {
  std::string name{};
  std::vector<std::string> parameters{};
  std::vector<ExprPtr> defaults{};  ///< default values of the last parameters
};

struct Stmt {
  enum class Kind { Text, Output, If, For, Set, SetBlock, Filter, With, Macro, Call, Generation, Break, Continue };
  Kind kind = Kind::Text;
  int line = 0;
  Value text{};                   ///< text of the template outside of tags
  Signature signature{};          ///< signature of a macro, or of the caller in a {% call %} block
  bool recursive = false;         ///< for loops: true if the body may call loop(...)
  std::vector<Target> targets{};  ///< variables assigned by set, with or for
  std::vector<ExprPtr> exprs{};   ///< conditions, values or a call; in a for loop, the sequence and its filter
  std::vector<Block> blocks{};    ///< bodies; the last one may be the else branch
};

/// Parses a template. Throws core::Error that begins with the line number.
[[nodiscard]] Block parse(std::string_view source);

/// Returns true if the template has a {% generation %} block, which marks the assistant's answers.
[[nodiscard]] bool has_generation(const Block& program);

}  // namespace folio::data::jinja
