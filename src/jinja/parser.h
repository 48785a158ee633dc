// A Jinja template as a tree: the language but for what is rejected with an error that names it, other files (include,
// import, extends, block) and calls with *arguments. A filter or a test that does not exist is an error here, not when
// it is reached.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace folio::data::jinja {

inline constexpr int kMaxDepth = 100;  ///< of expressions, and of blocks

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
  std::string name{};                ///< of a variable, attribute, filter or test; an operator; a text in UTF-8
  Value value{};                     ///< of a constant; an attribute's name as a text
  std::vector<ExprPtr> parts{};      ///< operands; what is called, then arguments; null where one is left out
  std::vector<std::string> names{};  ///< of the last arguments; a comparison's operators
};

struct Target {
  std::vector<std::string> names;  ///< one, or those that a sequence is unpacked to
  bool unpacks = false;
  std::string attribute{};  ///< of a namespace
};

struct Stmt;
using Block = std::vector<std::unique_ptr<const Stmt>>;

/// The text that a filter block applies its filters to, as a variable.
inline constexpr const char* kFilteredText = " ";

/// What a macro takes.
struct Signature {
  std::string name{};
  std::vector<std::string> parameters{};
  std::vector<ExprPtr> defaults{};  ///< of the last parameters
};

struct Stmt {
  enum class Kind { Text, Output, If, For, Set, SetBlock, Filter, With, Macro, Call, Generation, Break, Continue };
  Kind kind = Kind::Text;
  int line = 0;
  Value text{};                   ///< of a template
  Signature signature{};          ///< of a macro, and of what a call block passes
  bool recursive = false;         ///< a loop that can be called
  std::vector<Target> targets{};  ///< of a set, a with, a loop
  std::vector<ExprPtr> exprs{};   ///< conditions; the sequence and the filter of a loop; values; a call
  std::vector<Block> blocks{};    ///< bodies; an else comes last
};

/// Throws core::Error that begins with the line.
[[nodiscard]] Block parse(std::string_view source);

/// Whether {% generation %} is among the blocks, which says what of a chat is an assistant's answer.
[[nodiscard]] bool has_generation(const Block& program);

}  // namespace folio::data::jinja
