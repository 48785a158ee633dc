// Values of a Jinja template, with Python's meaning. A text is code points, and each character keeps whether it was
// said in a message: slicing, trimming and joining cannot turn what people say into the template's own words. A
// template is hostile: a Session spends the steps of a budget and bounds the sizes of one rendering, and lists and
// dicts nest at most kMaxNesting deep.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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

inline constexpr char32_t kSaid = 0x80000000;  ///< set in each character that was said in a message
inline char32_t code_of(char32_t c) { return c & ~kSaid; }

inline constexpr size_t kMaxText = size_t{8} << 20U;  ///< characters
inline constexpr size_t kCharactersPerStep = 4;       ///< copied
inline constexpr int kMaxNesting = 64;                ///< of lists and dicts
inline constexpr size_t kMaxRange = 100'000;          ///< as in Jinja's sandbox

/// A byte that is no UTF-8 becomes U+DC00 + byte and comes back as it was (Python's surrogateescape).
[[nodiscard]] Text from_utf8(std::string_view utf8, char32_t mark = 0);
[[nodiscard]] std::string to_utf8(TextView text);

[[nodiscard]] bool is_space(char32_t c);          ///< Python's str.isspace
[[nodiscard]] bool same(TextView a, TextView b);  ///< whoever said them

struct Value;
struct Loop;
struct Macro;
struct Builtin;

struct Undefined {
  std::string_view name{};  ///< for messages; lives as long as the program
};
struct None {};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
  bool is_group = false;  ///< of groupby: a tuple whose items are also .grouper and .list
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< in the order of insertion
  int depth = 1;
};
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};
/// A macro, a global function, or a method with the value that it belongs to.
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
  /// Null where the value is of another type.
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

/// What one rendering may use, and the namespaces that it makes.
class Session {
 public:
  explicit Session(core::WorkBudget budget = core::WorkBudget()) : budget_(std::move(budget)) {}
  /// Throws as core::WorkBudget does.
  void spend(size_t steps) { budget_.spend(steps); }
  /// Appends; throws core::Error where the text would become too long.
  void append(Text& out, TextView more);
  [[nodiscard]] Value text(Text text);
  [[nodiscard]] Value list(std::vector<Value> items, bool is_tuple = false, bool is_group = false);
  /// Of several equal keys the first keeps its place and the last its value.
  [[nodiscard]] Value dict(std::vector<std::pair<Value, Value>> items);
  [[nodiscard]] Namespace& make_namespace() { return namespaces_.emplace_back(); }

 private:
  core::WorkBudget budget_;
  std::deque<Namespace> namespaces_;  ///< which may refer to themselves
};

/// Where `part` begins in `text`, at `from` or behind it, whoever said them; npos where it doesn't.
[[nodiscard]] size_t find_part(Session& session, TextView text, TextView part, size_t from = 0);

/// The arguments of a call; `names` belong to the last of `values`.
struct Arguments {
  std::vector<Value> values;
  std::span<const std::string> names{};

  /// Each parameter's value, or null where none is given. Throws core::Error for one too many, an unknown name, or less
  /// than `n_required`.
  [[nodiscard]] std::vector<const Value*> bind(std::span<const std::string_view> parameters, size_t n_required) const;
};

[[nodiscard]] std::string_view type_name(const Value& value);  ///< "str", "list", … of Python
/// What Python computes with: an int, a float or a bool.
[[nodiscard]] std::optional<double> number(const Value& value);
[[nodiscard]] bool truthy(const Value& value);
[[nodiscard]] bool equal(Session& session, const Value& a, const Value& b);
/// Throws core::Error where Python has no order.
[[nodiscard]] bool less(Session& session, const Value& a, const Value& b);
/// The items of a list, the keys of a dict, the characters of a text. Throws core::Error for what is no sequence.
[[nodiscard]] std::vector<Value> items_of(Session& session, const Value& value);
[[nodiscard]] const Value* find_key(Session& session, const Dict& dict, const Value& key);

/// Appends str(value), or repr(value).
void write(Session& session, Text& out, const Value& value, bool repr = false);

struct JsonStyle {
  Text indent{};  ///< of one level
  bool lines = false;
  Text item_separator{U", "};
  Text key_separator{U": "};
  bool ascii = false;
  bool sort_keys = false;
};
/// Appends json.dumps(value).
void write_json(Session& session, Text& out, const Value& value, const JsonStyle& style, size_t level = 0);

}  // namespace folio::data::jinja
