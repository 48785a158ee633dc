#include "apps/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <ranges>
#include <set>

#include "core/error.h"
#include "core/file_status.h"
#include "core/version.h"
#include "infer/forward/machine.h"

namespace folio::apps {
namespace {

constexpr double kUnlimited = 1e6;  // --help omits upper limits from this value on; they only catch typing errors

// Returns the range as --help shows it, or "" if neither limit needs to be shown.
std::string note_of_range(double low, double high) {
  if (high < kUnlimited) return fmt::format("{:.10g} to {:.10g}", low, high);
  return low > 0.0 ? fmt::format("at least {:.10g}", low) : "";
}

constexpr size_t kColumns = 100;  // width of --help
constexpr size_t kDescriptionColumn = 28;

struct HelpLine {
  std::string flag;  ///< flag with its value, such as "--min-p P"
  std::string description;
};

struct HelpGroup {
  std::string title;
  std::vector<HelpLine> lines;
};

// Returns the position of a trailing "; VALUE: meaning", where VALUE is one or more numbers, or npos if there is none.
size_t special_value_at(std::string_view text) {
  const size_t at = text.rfind("; ");
  if (at == std::string_view::npos) return at;
  const std::string_view special = text.substr(at + 2);
  const size_t colon = special.find(": ");
  if (colon == std::string_view::npos) return colon;
  return special.substr(0, colon).find_first_not_of("-.0123456789 or") == std::string_view::npos
             ? at
             : std::string_view::npos;
}

// Returns a description with line breaks. Notes in parentheses at the end stay on one line if they fit.
std::string wrapped_description(std::string text) {
  constexpr char kUnbroken = '\x1f';
  const size_t notes = text.ends_with(')') ? text.rfind(" (") : std::string::npos;
  if (notes != std::string::npos && text.size() - notes <= kColumns - kDescriptionColumn) {
    std::replace(text.begin() + static_cast<ptrdiff_t>(notes) + 1, text.end(), ' ', kUnbroken);
  }
  text = wrapped(text, kDescriptionColumn);
  std::ranges::replace(text, kUnbroken, ' ');
  return text;
}

// Returns the group's title and lines. If a flag doesn't fit into its column, the description begins on the next line.
std::string help_of(const HelpGroup& group) {
  std::string text = group.title + ":\n";
  for (const HelpLine& line : group.lines) {
    std::string left = "  " + line.flag;
    if (left.size() + 2 > kDescriptionColumn) {
      text += left + "\n";
      left.clear();
    }
    text += fmt::format("{:{}}{}\n", left, kDescriptionColumn, wrapped_description(line.description));
  }
  return text;
}

// Returns the description with all notes in one pair of parentheses: `before`, the default, the notes that the
// description ends with, and `after`. A special value, "; VALUE: meaning" at the end, is a note too: "minimum
// probability; 0: off" with {"0 to 1"} and the default "0" becomes "minimum probability (0 to 1; default: 0, off)".
std::string with_notes(std::string description, const std::vector<std::string>& before,
                       const std::string& default_value, const std::vector<std::string>& after) {
  std::vector<std::string> notes = before;
  std::string own;
  if (const size_t open = description.rfind(" ("); description.ends_with(')') && open != std::string::npos) {
    own = description.substr(open + 2, description.size() - open - 3);
    description.erase(open);
  }
  std::string special;
  if (const size_t at = special_value_at(description); at != std::string::npos) {
    special = description.substr(at + 2);
    description.erase(at);
  }
  if (!default_value.empty()) {
    std::string note = "default: " + default_value;
    if (special.starts_with(default_value + ": ")) {
      note += ", " + special.substr(default_value.size() + 2);
      special.clear();
    }
    notes.push_back(note);
  }
  if (!own.empty()) notes.push_back(own);
  if (!special.empty()) notes.push_back(special);
  notes.insert(notes.end(), after.begin(), after.end());
  return notes.empty() ? description : fmt::format("{} ({})", description, fmt::join(notes, "; "));
}

// Rejects empty values, which usually come from an unset shell variable. Only the flags in kTexts may be empty.
void check_empty_values(const CLI::App& app) {
  constexpr std::array<std::string_view, 5> kTexts = {"--prompt", "--system", "--stop", "--choice", "--regex"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const auto& values = option->results();
    if (std::ranges::find(kTexts, name) != kTexts.end()) continue;
    if (std::ranges::find(values, "") != values.end()) throw core::UsageError(name + ": the value is empty");
  }
  for (const CLI::App* command : app.get_subcommands()) check_empty_values(*command);
}

// Returns a flag's names and value as --help shows them, "-m, --model FILE", or "" for a positional argument.
std::string names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) return "";
  std::string value = option.get_type_name();
  const bool is_flag = option.get_expected_max() == 0 || option.get_type_size() == 0;
  if (is_flag && !value.starts_with("[=")) return fmt::format("{}", fmt::join(names, ", "));
  if (value == "INT" || value == "UINT") value = "N";
  if (value == "FLOAT") value = "X";
  if (value == "BOOLEAN") value = "true|false";
  return fmt::format("{}{}{}", fmt::join(names, ", "), value.starts_with("[=") ? "" : " ", value);
}

// Returns "-o,--out" for "-o,--out FILE".
std::string without_value(const std::string& names) { return names.substr(0, names.find(' ')); }

bool is_list(const CLI::Option& option) { return option.get_expected_max() >= CLI::detail::expected_max_vector_size; }

std::string default_of(const CLI::Option& option) {
  std::string value = option.get_default_str();
  if (is_list(option) && value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  if (option.get_type_name() == "BOOLEAN") value = value == "1" ? "true" : "false";
  return value;
}

std::string description_of(const CLI::App& app, const CLI::Option& option, const std::string& check) {
  const auto listed = [&](const std::string& what, const std::set<CLI::Option*>& options) {  // in the order of --help
    std::vector<std::string> names;
    for (const CLI::Option* other : app.get_options()) {
      if (std::ranges::find(options, other) != options.end()) names.push_back(other->get_name());
    }
    return fmt::format("{} {}", what, fmt::join(names, ", "));
  };
  std::vector<std::string> before;
  std::vector<std::string> after;
  if (option.get_required()) before.emplace_back("required");
  if (!check.empty()) before.push_back(check);
  if (!option.get_needs().empty()) after.push_back(listed("requires", option.get_needs()));
  if (!option.get_excludes().empty()) after.push_back(listed("not with", option.get_excludes()));
  return with_notes(option.get_description(), before, default_of(option), after);
}

std::string usage_of(const CLI::App& app, const std::string& name) {
  std::string usage = fmt::format("Usage: {} [OPTIONS]", name);
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string shown = option->get_name(true) + (is_list(*option) ? "..." : "");
    usage += option->get_required() ? " " + shown : fmt::format(" [{}]", shown);
  }
  return usage + (app.get_subcommands({}).empty() ? "" : " SUBCOMMAND");
}

// Adds `check`, which must return an error message, or "" for a valid value. A default that `check` rejects means
// "unset" and is not shown in --help.
template <class Check>
void add_check(CLI::Option& option, const Check& check) {
  if (!is_list(option) && !check(option.get_default_str()).empty()) option.default_str("");
  option.check(CLI::Validator(check, ""));
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent) {
  std::string lines;
  size_t column = indent;
  for (size_t begin = text.find_first_not_of(' '); begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const bool first = lines.empty();
    if (!first && column + 1 + (end - begin) > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += " ";
      ++column;
    }
    lines += text.substr(begin, end - begin);
    column += end - begin;
    begin = text.find_first_not_of(' ', end);
  }
  return lines;
}

Flag* Flag::in_range(double low, double high) {
  const auto check = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole = end != text.c_str() && *end == '\0';
    if (whole && value >= low && value <= high) return "";
    return fmt::format("\"{}\", expected a number in [{:.10g}, {:.10g}]", core::printable(text), low, high);
  };
  add_check(*option_, check);
  note_ = note_of_range(low, high);
  return this;
}

Flag* Flag::one_of(std::vector<std::string> values) {
  const auto check = [values = std::move(values)](const std::string& text) -> std::string {
    if (std::ranges::find(values, text) != values.end()) return "";
    return fmt::format("\"{}\", expected one of: {}", core::printable(text), fmt::join(values, ", "));
  };
  add_check(*option_, check);
  return this;
}

Flag* Flag::by_name(std::vector<std::pair<std::string, int>> values) {
  const auto to_number = [values = std::move(values)](std::string& text) -> std::string {
    const auto found = std::ranges::find(values, text, &std::pair<std::string, int>::first);
    if (found == values.end()) {
      return fmt::format("\"{}\", expected one of: {}", core::printable(text),
                         fmt::join(std::views::keys(values), ", "));
    }
    text = std::to_string(found->second);
    return "";
  };
  option_->transform(CLI::Validator(to_number, ""));
  return this;
}

Flag* Flag::default_str(const std::string& text) {
  option_->default_str(text);
  return this;
}

Flag* Flag::required() {
  option_->required();
  return this;
}

Flag* Flag::needs(const std::string& name) {
  option_->needs(name);
  return this;
}

Flag* Flag::excludes(const std::string& name) {
  option_->excludes(name);
  return this;
}

Flag* Flag::delimiter(char c) {
  option_->delimiter(c);
  return this;
}

Flags::Flags(const std::string& description, const std::string& name)
    : owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()), full_name_(name) {
  app_->set_help_flag("-h,--help", "print this help and exit");
}

Flags::Flags(CLI::App* command, const std::string& full_name) : app_(command), full_name_(full_name) {}

Flags::~Flags() = default;

Flag* Flags::added(CLI::Option* option, const std::string& names) {
  if (const size_t space = names.find(' '); space != std::string::npos) option->type_name(names.substr(space + 1));
  if (!option->get_positional()) option->allow_extra_args(false);  // "--list A B": B is a positional argument
  return &all_.emplace_back(option);
}

template <class T>
Flag* Flags::bind(const std::string& names, T& value, const std::string& help) {
  return added(app_->add_option(without_value(names), value, help)->capture_default_str(), names);
}

#define FOLIO_FLAG_OF(...) template Flag* Flags::bind(const std::string&, __VA_ARGS__&, const std::string&)
FOLIO_FLAG_OF(bool);
FOLIO_FLAG_OF(int);
FOLIO_FLAG_OF(uint16_t);
FOLIO_FLAG_OF(int64_t);
FOLIO_FLAG_OF(uint64_t);
FOLIO_FLAG_OF(float);
FOLIO_FLAG_OF(double);
FOLIO_FLAG_OF(std::string);
FOLIO_FLAG_OF(std::optional<infer::CacheType>);
FOLIO_FLAG_OF(std::optional<int64_t>);
FOLIO_FLAG_OF(std::optional<uint64_t>);
FOLIO_FLAG_OF(std::optional<std::string>);
FOLIO_FLAG_OF(std::vector<int>);
FOLIO_FLAG_OF(std::vector<float>);
FOLIO_FLAG_OF(std::vector<int64_t>);
FOLIO_FLAG_OF(std::vector<std::string>);
#undef FOLIO_FLAG_OF

Flag* Flags::add_option_function(const std::string& names, std::function<void(const std::string&)> take,
                                 const std::string& help) {
  return added(app_->add_option_function<std::string>(without_value(names), take, help), names);
}

Flag* Flags::add_list_function(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                               const std::string& help) {
  return added(app_->add_option_function<std::vector<std::string>>(without_value(names), take, help), names);
}

Flag* Flags::add_flag(const std::string& names, bool& value, const std::string& help) {
  return added(app_->add_flag(without_value(names), value, help), names);
}

Flag* Flags::add_flag(const std::string& names, std::string& value, const std::string& help) {
  return added(app_->add_flag(without_value(names), value, help), names);
}

Flag* Flags::add_config(const std::string& names, const std::string& help) {
  const auto check = [](std::string& file) {
    const bool is_other = core::path_exists(file) && !core::is_plain_file(file);
    return is_other ? file + " is not a regular file" : "";  // reading a pipe or a device may never end
  };
  app_->allow_config_extras(CLI::config_extras_mode::error);
  return added(app_->set_config(without_value(names), "", help)->check(CLI::Validator(check, "")), names);
}

Flags* Flags::add_subcommand(const std::string& name, const std::string& help) {
  return commands_.emplace_back(new Flags(app_->add_subcommand(name, help), full_name_ + " " + name)).get();
}

void Flags::require_subcommand() { app_->require_subcommand(1); }
void Flags::footer(std::function<std::string()> text) { app_->footer(std::move(text)); }
void Flags::final_callback(std::function<void()> call) { app_->final_callback(std::move(call)); }

void Flags::default_group(const std::string& name) {
  app_->get_help_ptr()->group(name);
  add_version();
  app_->get_version_ptr()->group(name);
  group(name);
}

void Flags::group(const std::string& name) { app_->option_defaults()->group(name); }

void Flags::add_version() {
  if (app_->get_option_no_throw("--version") != nullptr) return;  // `export` defines its own --version
  app_->set_version_flag("--version", version(), "print the version and exit");
}

std::string Flags::help() const {
  for (const auto& command : commands_) {
    if (command->parsed()) return command->help();
  }
  HelpGroup arguments{.title = "Arguments", .lines = {}};
  std::vector<HelpGroup> groups;
  for (const CLI::Option* option : app_->get_options()) {
    const auto flag = std::ranges::find(all_, option, &Flag::option_);
    const std::string description = description_of(*app_, *option, flag == all_.end() ? "" : flag->note_);
    if (option->get_positional()) arguments.lines.push_back({option->get_name(true), description});
    if (!option->nonpositional()) continue;
    auto group = std::ranges::find(groups, option->get_group(), &HelpGroup::title);
    if (group == groups.end()) group = groups.insert(group, {.title = option->get_group(), .lines = {}});
    group->lines.push_back({names_of(*option), description});
  }
  if (!arguments.lines.empty()) groups.insert(groups.begin(), arguments);
  if (!commands_.empty()) groups.push_back({.title = "Subcommands", .lines = {}});
  for (const auto& command : commands_) {
    groups.back().lines.push_back({command->name(), command->app_->get_description()});
  }
  std::string text = wrapped(app_->get_description());
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  text += fmt::format("\n{}\n", usage_of(*app_, full_name_));
  for (const HelpGroup& group : groups) text += "\n" + help_of(group);
  const std::string footer = app_->get_footer();
  return footer.empty() ? text : fmt::format("{}\n{}\n", text, footer);
}

std::string Flags::version() const { return fmt::format("{} of Folio {}", name(), core::version()); }

bool Flags::parse(int argc, char** argv) {
  const auto wrong = [&](std::string_view what) {
    return core::UsageError(fmt::format("{} (see {} --help)", what, name()));
  };
  try {
    add_version();
    if (argc == 2 && std::string_view(argv[1]) == "--version") throw CLI::CallForVersion(version(), 0);
    app_->parse(argc, argv);
    check_empty_values(*app_);
    return true;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help());
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const Done&) {
    return false;
  } catch (const CLI::ParseError& error) {
    constexpr std::string_view kUnknownSetting = "INI was not able to parse ";
    const std::string_view what = error.what();
    if (!what.starts_with(kUnknownSetting)) throw wrong(what);
    throw wrong(fmt::format("--config: \"{}\" is not a flag's long name, expected lines such as seed = 1",
                            core::printable(what.substr(kUnknownSetting.size()))));
  } catch (const core::UsageError& error) {  // thrown by the function that parses a value
    throw wrong(error.what());
  }
  return false;
}

size_t Flags::count(const std::string& name) const { return app_->count(name); }
std::vector<std::string> Flags::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->parse_order()) names.push_back(option->get_name());
  return names;
}
bool Flags::parsed() const { return app_->parsed(); }
const std::string& Flags::name() const { return app_->get_name(); }

}  // namespace folio::apps
