// A program's flags. flags.cpp alone sees CLI11, which does the work: its header costs a file five seconds to
// compile. Names and meaning are CLI11's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/number.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace folio::apps {

/// As core::number_of(), of a number that may have a plus sign.
template <class T>
[[nodiscard]] std::optional<T> signed_number_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return core::number_of<T>(text);
}

/// What a flag's text has to be: `check` may replace it, and returns what is wrong with it, or "".
struct Check {
  std::function<std::string(std::string&)> check;
  std::string description;  ///< for --help
};

/// One of these names, which is replaced by its number: for an option of an enum. Any other is an error that lists
/// them.
[[nodiscard]] Check by_name(std::vector<std::pair<std::string, int>> values);
/// One of these texts.
[[nodiscard]] Check one_of(std::vector<std::string> values);
/// A number in [low, high]; NaN is outside of any range.
[[nodiscard]] Check in_range(double low, double high);

/// A flag, to say more of it. Each function returns the flag itself.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag* check(const Check& check);
  Flag* transform(const Check& check);
  Flag* capture_default_str();  ///< --help shows the value that the variable has now
  Flag* default_str(const std::string& text);
  Flag* type_name(const std::string& name);
  Flag* description(const std::string& text);
  Flag* group(const std::string& name);
  Flag* required();
  Flag* needs(const std::string& name);
  Flag* excludes(const std::string& name);
  Flag* excludes(Flag* other);
  Flag* delimiter(char c);
  Flag* one_value();  ///< each time that a repeatable flag is given

 private:
  CLI::Option* option_;
};

class Flags {
 public:
  Flags(const std::string& description, const std::string& name);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  /// Bound to `value`, which has to outlive the parsing. An enum's needs a transform(by_name()).
  template <class T>
  Flag* add_option(const std::string& names, T& value, const std::string& help = "") {
    if constexpr (std::is_enum_v<T>) {
      return add_option_function(
          names, [&value](const std::string& number) { value = static_cast<T>(std::stoi(number)); }, help);
    } else {
      return bind(names, value, help);
    }
  }
  Flag* add_option_function(const std::string& names, std::function<void(const std::string&)> take,
                            const std::string& help);
  /// Of a flag that may be given several times.
  Flag* add_list_function(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                          const std::string& help);
  Flag* add_flag(const std::string& names, bool& value, const std::string& help);
  /// A flag that may have a value, as in --flag=value; "true" without one.
  Flag* add_flag(const std::string& names, std::string& value, const std::string& help);
  /// A TOML file with values; a key that is no flag is an error.
  void add_config(const std::string& name, const std::string& help);

  Flags* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand();
  void footer(std::function<std::string()> text);
  void final_callback(std::function<void()> call);
  /// The group of --help and --version, and of flags that are added from now on.
  void default_group(const std::string& name);

  /// False: --help or --version was asked for, and is printed. Throws core::UsageError.
  [[nodiscard]] bool parse(int argc, char** argv);
  /// How often a flag was given.
  [[nodiscard]] size_t count(const std::string& name) const;
  [[nodiscard]] bool parsed() const;  ///< of a subcommand: whether it was named
  [[nodiscard]] const std::string& name() const;

 private:
  explicit Flags(CLI::App* command);
  void add_version();  // unless a flag has that name
  [[nodiscard]] std::string version() const;
  Flag* added(CLI::Option* option) { return &all_.emplace_back(option); }
  template <class T>  // flags.cpp has one for each type that a program asks for
  Flag* bind(const std::string& names, T& value, const std::string& help);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::deque<Flag> all_;
  std::deque<std::unique_ptr<Flags>> commands_;
};

}  // namespace folio::apps
