// A program's flags, parsed by CLI11. Functions behave like the CLI11 functions of the same name. Programs include this
// header instead of CLI11's, which takes five seconds to compile.
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

/// Parses the whole text as a number that may have a sign, "+" or "-". Returns nullopt if `text` is no such number or
/// is out of range for T.
template <class T>
[[nodiscard]] std::optional<T> signed_number_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return core::number_of<T>(text);
}

/// Adds properties to a flag. Each function returns the flag itself, so that calls can be chained.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  /// in_range() accepts numbers in [low, high], but not NaN; one_of() accepts the given values. A default that is not
  /// accepted means "unset" and is not shown in --help.
  Flag* in_range(double low, double high);
  Flag* one_of(std::vector<std::string> values);
  /// Accepts names and replaces each by its number, for options of an enum type. The error lists the names.
  Flag* by_name(std::vector<std::pair<std::string, int>> values);
  Flag* default_str(const std::string& text);  ///< sets the default in --help, "" for none
  Flag* required();
  Flag* needs(const std::string& name);
  Flag* excludes(const std::string& name);
  Flag* delimiter(char c);

 private:
  friend class Flags;
  CLI::Option* option_;
  std::string note_;  ///< the range for --help, such as "0 to 1"
};

/// Returns `text` with line breaks between words, so that no line exceeds 100 columns. The first line begins in column
/// `indent`; later lines are indented by as much.
[[nodiscard]] std::string wrapped(std::string_view text, size_t indent = 0);

class Flags {
 public:
  Flags(const std::string& description, const std::string& name);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // `names` lists the names of a flag, then optionally a placeholder for its value, for --help: "-o,--out FILE".

  /// Adds an option that parse() stores in `value`, which must outlive parse(). --help shows the current `value` as the
  /// default. An option of a vector may be repeated, with one value each; a positional argument has several values. For
  /// an enum, by_name() and default_str() must also be called.
  template <class T>
  Flag* add_option(const std::string& names, T& value, const std::string& help) {
    if constexpr (std::is_enum_v<T>) {
      return add_option_function(
          names, [&value](const std::string& number) { value = static_cast<T>(std::stoi(number)); }, help);
    } else {
      return bind(names, value, help);
    }
  }
  Flag* add_option_function(const std::string& names, std::function<void(const std::string&)> take,
                            const std::string& help);
  /// Adds an option that may be repeated. If it was given, parse() calls `take` once, with all values.
  Flag* add_list_function(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                          const std::string& help);
  Flag* add_flag(const std::string& names, bool& value, const std::string& help);
  /// Adds a flag with an optional value: "--flag=x" stores "x" in `value`, "--flag" stores "true".
  Flag* add_flag(const std::string& names, std::string& value, const std::string& help);
  /// Adds an option for a TOML file with values of flags. A key that is not a flag is an error.
  Flag* add_config(const std::string& names, const std::string& help);

  Flags* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand();
  void footer(std::function<std::string()> text);
  void final_callback(std::function<void()> call);
  /// Sets the group in which --help lists --help, --version and all flags added later.
  void default_group(const std::string& name);
  /// Sets the group in which --help lists flags added later.
  void group(const std::string& name);

  /// Thrown by a function that parses a value, if this value requests only the output that the function has printed.
  struct Done {};
  /// Parses the arguments. Returns false if it printed what they request, such as --help or --version. Throws
  /// core::UsageError if they are wrong.
  [[nodiscard]] bool parse(int argc, char** argv);
  /// Returns the number of times that a flag was given.
  [[nodiscard]] size_t count(const std::string& name) const;
  /// Returns the first name of each flag that was given, such as "--model", in the order of the command line.
  [[nodiscard]] std::vector<std::string> given() const;
  [[nodiscard]] bool parsed() const;  ///< returns true if this is a subcommand that was given
  [[nodiscard]] const std::string& name() const;

 private:
  Flags(CLI::App* command, const std::string& full_name);
  void add_version();  // does nothing if the program has its own --version
  [[nodiscard]] std::string version() const;
  [[nodiscard]] std::string help() const;  // returns the help of the given subcommand, or else of this command
  Flag* added(CLI::Option* option, const std::string& names);
  template <class T>  // instantiated in flags.cpp for the types that programs use
  Flag* bind(const std::string& names, T& value, const std::string& help);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::string full_name_;  ///< with the program's name, such as "tokenize train"
  std::deque<Flag> all_;
  std::deque<std::unique_ptr<Flags>> commands_;
};

}  // namespace folio::apps
