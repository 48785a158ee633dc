#include "apps/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "core/error.h"
#include "core/file_status.h"
#include "core/paths.h"
#include "core/version.h"

namespace folio::apps {
namespace {

// A flag's value is a name or a number, and an empty one is a mistake (of a script, whose variable is not set), but for
// texts.
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

}  // namespace

Check by_name(std::vector<std::pair<std::string, int>> values) {
  return {[values = std::move(values)](std::string& text) -> std::string {
            std::string names;
            for (const auto& [name, value] : values) {
              if (name == text) {
                text = std::to_string(value);
                return "";
              }
              names += (names.empty() ? "" : ", ") + name;
            }
            return fmt::format("\"{}\" has to be one of: {}", core::printable(text), names);
          },
          ""};
}

Check one_of(std::vector<std::string> values) {
  const std::string names = fmt::format("{{{}}}", fmt::join(values, ","));
  return {[=](std::string& text) -> std::string {
            const bool known = std::ranges::find(values, text) != values.end();
            return known ? "" : fmt::format("{} not in {}", core::printable(text), names);
          },
          names};
}

Check in_range(double low, double high) {
  const std::string range = fmt::format("[{:.10g}, {:.10g}]", low, high);
  return {[=](std::string& text) -> std::string {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool whole = end != text.c_str() && *end == '\0';
            if (whole && value >= low && value <= high) return "";
            return fmt::format("{} is not a number in {}", core::printable(text), range);
          },
          "in " + range};
}

Flag* Flag::check(const Check& check) {
  option_->check(CLI::Validator(check.check, check.description));
  return this;
}

Flag* Flag::transform(const Check& check) {
  option_->transform(CLI::Validator(check.check, check.description));
  return this;
}

Flag* Flag::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Flag* Flag::default_str(const std::string& text) {
  option_->default_str(text);
  return this;
}

Flag* Flag::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}

Flag* Flag::description(const std::string& text) {
  option_->description(text);
  return this;
}

Flag* Flag::group(const std::string& name) {
  option_->group(name);
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

Flag* Flag::excludes(Flag* other) {
  option_->excludes(other->option_);
  return this;
}

Flag* Flag::delimiter(char c) {
  option_->delimiter(c);
  return this;
}

Flag* Flag::one_value() {
  option_->allow_extra_args(false);
  return this;
}

Flags::Flags(const std::string& description, const std::string& name)
    : owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()) {}

Flags::Flags(CLI::App* command) : app_(command) {}

Flags::~Flags() = default;

template <class T>
Flag* Flags::bind(const std::string& names, T& value, const std::string& help) {
  return added(app_->add_option(names, value, help));
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
  return added(app_->add_option_function<std::string>(names, take, help));
}

Flag* Flags::add_list_function(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                               const std::string& help) {
  return added(app_->add_option_function<std::vector<std::string>>(names, take, help));
}

Flag* Flags::add_flag(const std::string& names, bool& value, const std::string& help) {
  return added(app_->add_flag(names, value, help));
}

Flag* Flags::add_flag(const std::string& names, std::string& value, const std::string& help) {
  return added(app_->add_flag(names, value, help));
}

void Flags::add_config(const std::string& name, const std::string& help) {
  const auto check = [](std::string& file) {
    const bool is_other = core::path_exists(file) && !core::is_plain_file(file);
    return is_other ? file + " is not a regular file" : "";  // a pipe may have no writer, and a device no end
  };
  app_->set_config(name, "", help)->check(CLI::Validator(check, ""));
  app_->allow_config_extras(CLI::config_extras_mode::error);
}

Flags* Flags::add_subcommand(const std::string& name, const std::string& help) {
  return commands_.emplace_back(new Flags(app_->add_subcommand(name, help))).get();
}

void Flags::require_subcommand() { app_->require_subcommand(1); }
void Flags::footer(std::function<std::string()> text) { app_->footer(std::move(text)); }
void Flags::final_callback(std::function<void()> call) { app_->final_callback(std::move(call)); }

void Flags::default_group(const std::string& name) {
  app_->get_help_ptr()->group(name);
  add_version();
  app_->get_version_ptr()->group(name);
  app_->option_defaults()->group(name);
}

void Flags::add_version() {
  if (app_->get_option_no_throw("--version") != nullptr) return;  // export's is llama2c's format
  app_->set_version_flag("--version", version());
}

std::string Flags::version() const { return fmt::format("{} of Folio {}", name(), core::version()); }

bool Flags::parse(int argc, char** argv) {
  const auto wrong = [&](const char* what) {
    return core::UsageError(fmt::format("{} (see {} --help)", what, name()));
  };
  try {
    add_version();
    if (argc == 2 && std::string_view(argv[1]) == "--version") throw CLI::CallForVersion(version(), 0);
    app_->parse(argc, argv);
    check_empty_values(*app_);
    return true;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::ParseError& error) {
    throw wrong(error.what());
  } catch (const core::UsageError& error) {  // of a value
    throw wrong(error.what());
  }
  return false;
}

size_t Flags::count(const std::string& name) const { return app_->count(name); }
bool Flags::parsed() const { return app_->parsed(); }
const std::string& Flags::name() const { return app_->get_name(); }

}  // namespace folio::apps
