// Values of a Jinja template, with Python's semantics. Each character of a string is marked if it comes from a message
// (kFromMessage), so that no string operation can turn message content into control tokens of the template. Templates
// are untrusted: a Session limits the work and sizes of a rendering, and kMaxNesting the nesting of lists and dicts.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/work_budget.h"

namespace folio::data::jinja {

using Text = std::u32string;
using TextView = std::u32string_view;

inline constexpr char32_t kFromMessage = 0x80000000;  ///< bit that is set in characters that come from a message
inline char32_t code_of(char32_t c) { return c & ~kFromMessage; }

inline constexpr size_t kMaxText = size_t{8} << 20U;  ///< maximum number of characters in a string
inline constexpr size_t kCharactersPerStep = 4;       ///< characters copied or compared per step of the budget
inline constexpr int kMaxNesting = 64;                ///< maximum nesting of lists and dicts
inline constexpr size_t kMaxRange = 100'000;          ///< maximum length of range(), as in Jinja's sandbox

/// Convert from and to UTF-8. from_utf8() sets the bit `mark` (kFromMessage, or 0 for none) in each character, and
/// replaces an invalid byte by the code point U+DC00 + byte; to_utf8() restores the byte.
[[nodiscard]] Text from_utf8(std::string_view utf8, char32_t mark = 0);
[[nodiscard]] std::string to_utf8(TextView text);

/// Returns the escape sequence of a character in Python's repr(): "\xNN", "\uNNNN" or "\UNNNNNNNN".
[[nodiscard]] std::string python_escape(char32_t code);

[[nodiscard]] bool is_space(char32_t c);          ///< as Python's str.isspace
[[nodiscard]] bool same(TextView a, TextView b);  ///< compares code points, ignoring kFromMessage

struct Value;
struct Loop;
struct Macro;
struct Builtin;

struct Undefined {
  std::string_view name{};  ///< name for error messages; points into the parsed template
};
struct None {};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
  bool is_group = false;  ///< tuple from groupby: its two items are also the attributes grouper and list
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< keys and values in insertion order
  int depth = 1;
};
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};
/// A macro or a builtin (the other pointer is null). `self` is the object of a method, and null for a global function.
struct Function {
  const Builtin* builtin = nullptr;
  const Macro* macro = nullptr;
  std::shared_ptr<const Value> self{};
};

struct Value {
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, Namespace*, Loop*, Function>
      data;

  template <typename T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(data);
  }
  [[nodiscard]] bool is_undefined() const { return is<Undefined>(); }
  [[nodiscard]] bool is_none() const { return is<None>(); }
  /// Returns the string, list or dict, or null if the value has another type.
  [[nodiscard]] const Text* text() const { return pointer<Text>(); }
  [[nodiscard]] const List* list() const { return pointer<List>(); }
  [[nodiscard]] const Dict* dict() const { return pointer<Dict>(); }

 private:
  template <typename T>
  [[nodiscard]] const T* pointer() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data);
    return held == nullptr ? nullptr : held->get();
  }
};

/// Enforces the limits of one rendering, and owns the namespaces that the template creates.
class Session {
 public:
  explicit Session(core::WorkBudget budget = core::WorkBudget()) : budget_(std::move(budget)) {}
  /// Spends steps of the budget. Throws core::TooMuchWork when it is used up.
  void spend(size_t steps) { budget_.spend(steps); }
  /// Appends `more`. Throws core::Error if `out` would exceed kMaxText characters.
  void append(Text& out, TextView more);
  /// Create values and spend steps of the budget. Throw core::Error beyond a limit of size or nesting.
  [[nodiscard]] Value text(Text text);
  [[nodiscard]] Value list(std::vector<Value> items, bool is_tuple = false, bool is_group = false);
  /// Creates a dict. If a key is repeated, the first occurrence determines the position, the last one the value.
  [[nodiscard]] Value dict(std::vector<std::pair<Value, Value>> items);
  [[nodiscard]] Namespace& make_namespace() { return namespaces_.emplace_back(); }

 private:
  core::WorkBudget budget_;
  std::deque<Namespace> namespaces_;  ///< reference counts would leak a namespace that contains itself
};

/// Returns the position of the first `part` in `text`, not before `from`, or npos. Ignores kFromMessage.
[[nodiscard]] size_t find_part(Session& session, TextView text, TextView part, size_t from = 0);

/// Arguments of a call. The last values are keyword arguments; `names` has their names.
struct Arguments {
  std::vector<Value> values;
  std::span<const std::string> names{};

  [[nodiscard]] size_t n_positional() const { return values.size() - names.size(); }
  /// Returns the value of each parameter, null if not given. Throws core::Error for too many arguments, an unknown
  /// name, or a missing argument among the first `n_required`.
  [[nodiscard]] std::vector<const Value*> bind(std::span<const std::string_view> parameters, size_t n_required) const;
};

[[nodiscard]] std::string_view type_name(const Value& value);  ///< Python's name of the type: "str", "list", …
/// Throws core::Error if the value cannot be a key of a dict.
void require_hashable(const Value& value);
/// Returns the value of an int, float or bool, or nullopt for other types.
[[nodiscard]] std::optional<double> number(const Value& value);
[[nodiscard]] bool truthy(const Value& value);                               ///< Python's bool(value)
[[nodiscard]] bool equal(Session& session, const Value& a, const Value& b);  ///< Python's a == b
/// Returns a < b. Throws core::Error for types that Python cannot order.
[[nodiscard]] bool less(Session& session, const Value& a, const Value& b);
/// Returns the items of a list, keys of a dict or characters of a string, and nothing for an undefined value. Throws
/// core::Error for other types.
[[nodiscard]] std::vector<Value> items_of(Session& session, const Value& value);
[[nodiscard]] const Value* find_key(Session& session, const Dict& dict, const Value& key);  ///< null if missing

/// Appends Python's str(value), or repr(value) if `repr` is true.
void write(Session& session, Text& out, const Value& value, bool repr = false);

/// Converts JSON. Sets the bit `mark` (kFromMessage or 0) in all strings and keys. Integers beyond int64 become floats.
[[nodiscard]] Value from_json(Session& session, const nlohmann::ordered_json& json, char32_t mark);

struct JsonStyle {
  Text indent{};       ///< indentation per level
  bool lines = false;  ///< true if each element of a list or dict is on its own line
  Text item_separator{U", "};
  Text key_separator{U": "};
  bool ascii = false;
  bool sort_keys = false;
};
/// Appends the output of Python's json.dumps(value). `level` is the initial depth of indentation.
void write_json(Session& session, Text& out, const Value& value, const JsonStyle& style, size_t level = 0);

}  // namespace folio::data::jinja
