// A program's flags, parsed by CLI11; names and meaning are CLI11's. Programs include this header instead, because
// CLI11's takes five seconds to compile.
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

/// Returns the number that `text` is, with or without a sign, or nothing if it is none (see core::number_of()).
template <class T>
[[nodiscard]] std::optional<T> signed_number_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return core::number_of<T>(text);
}

/// A condition on a flag's value.
struct Check {
  std::function<std::string(std::string&)> check;  ///< returns an error or ""; may replace the value
  std::string note;                                ///< for --help, such as "0 to 1"
};

/// Accepts these names and replaces a name by its number, as an option of an enum type needs. The error lists them.
[[nodiscard]] Check by_name(std::vector<std::pair<std::string, int>> values);
/// Accepts these values.
[[nodiscard]] Check one_of(std::vector<std::string> values);
/// Accepts numbers in [low, high]; NaN is in no range.
[[nodiscard]] Check in_range(double low, double high);

/// Properties of a flag. Each function returns the flag itself.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag* check(const Check& check);
  Flag* transform(const Check& check);
  Flag* capture_default_str();  ///< shows the variable's current value as the default in --help
  Flag* default_str(const std::string& text);
  Flag* type_name(const std::string& name);
  Flag* description(const std::string& text);
  Flag* group(const std::string& name);
  Flag* required();
  Flag* needs(const std::string& name);
  Flag* excludes(const std::string& name);
  Flag* excludes(Flag* other);
  Flag* delimiter(char c);
  Flag* one_value();  ///< accepts one value per occurrence of a repeatable flag

 private:
  friend class Flags;
  CLI::Option* option_;
  std::string note_;  ///< note of the check, for --help
};

class Flags {
 public:
  Flags(const std::string& description, const std::string& name);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  /// Adds an option that stores its value in `value`, which must outlive parse(). An enum needs a transform(by_name()).
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
  /// Adds an option that may be given several times.
  Flag* add_list_function(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                          const std::string& help);
  Flag* add_flag(const std::string& names, bool& value, const std::string& help);
  /// Adds a flag with an optional value (--flag=value), "true" by default.
  Flag* add_flag(const std::string& names, std::string& value, const std::string& help);
  /// Adds an option for a TOML file with values of flags. A key that is not a flag is an error.
  Flag* add_config(const std::string& name, const std::string& help);

  Flags* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand();
  void footer(std::function<std::string()> text);
  void final_callback(std::function<void()> call);
  /// Sets the group of --help and --version in --help, and of flags added later.
  void default_group(const std::string& name);
  /// Sets the group of flags added later.
  void group(const std::string& name);

  /// Returns false if --help or --version was given, and prints what was requested. Throws core::UsageError.
  [[nodiscard]] bool parse(int argc, char** argv);
  /// Returns the number of times that a flag was given.
  [[nodiscard]] size_t count(const std::string& name) const;
  [[nodiscard]] bool parsed() const;  ///< true if this is a subcommand that was given
  [[nodiscard]] const std::string& name() const;

 private:
  Flags(CLI::App* command, const std::string& full_name);
  void add_version();  // unless a flag has that name
  [[nodiscard]] std::string version() const;
  [[nodiscard]] std::string help() const;  // of the subcommand that was given, if any
  Flag* added(CLI::Option* option) { return &all_.emplace_back(option); }
  template <class T>  // flags.cpp instantiates it for the types that programs use
  Flag* bind(const std::string& names, T& value, const std::string& help);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::string full_name_;  ///< such as "tokenize train"
  std::deque<Flag> all_;
  std::deque<std::unique_ptr<Flags>> commands_;
};

}  // namespace folio::apps
