#include "experiments/common/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/paths.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace fs = std::filesystem;

std::string shown(const Report::Json& cell) {
  if (cell.is_null()) return "–";
  if (cell.is_string()) return cell.get<std::string>();
  if (!cell.is_number_float()) return cell.dump();
  const auto value = cell.get<double>();
  return value != 0.0 && std::abs(value) < 0.001 ? fmt::format("{:.1e}", value) : fmt::format("{:.3f}", value);
}

struct Options {
  fs::path directory;
  uint64_t seed = 1;
  bool short_form = false;
};

Options parse(int argc, char** argv, const std::string& name) {
  Options options{.directory = core::runs_directory() / "experiments" / name};
  const std::string usage = fmt::format("usage: {} [--out DIR] [--seed N] [--short]", name);
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--short") {
      options.short_form = true;
      continue;
    }
    if (flag != "--out" && flag != "--seed") {
      throw core::UsageError(fmt::format("unknown argument {}; {}", core::printable(flag), usage));
    }
    if (i + 1 == argc) throw core::UsageError(fmt::format("{} needs a value; {}", flag, usage));
    const std::string_view value = argv[++i];
    if (flag == "--out") {
      options.directory = value;
      continue;
    }
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.seed);
    if (error != std::errc{} || end != value.data() + value.size()) {
      throw core::UsageError(
          fmt::format("--seed is a whole number from 0 to 2^64 - 1, not {}", core::printable(value)));
    }
  }
  return options;
}

}  // namespace

Report::Report(std::string name, fs::path directory, uint64_t seed, bool short_form)
    : name_(std::move(name)), directory_(std::move(directory)), seed_(seed), short_form_(short_form) {
  fs::create_directories(directory_);
  json_ = {{"experiment", name_},      {"seed", seed_},
           {"short", short_form_},     {"tables", Json::object()},
           {"values", Json::object()}, {"results", Json::array()},
           {"pictures", Json::array()}};
}

std::vector<uint64_t> Report::seeds() const {
  return short_form_ ? std::vector{seed_} : std::vector{seed_, seed_ + 1, seed_ + 2};
}

void Report::say(const std::string& line) const {
  fmt::print("{}\n", line);
  std::fflush(stdout);  // shows progress immediately, even if the output is piped
}

void Report::table(const std::string& title, const std::vector<std::string>& columns, const Rows& rows) {
  std::vector<std::vector<std::string>> text{columns};
  std::vector<std::string> keys;  // column names in results.json, made unique
  for (const std::string& column : columns) {
    const auto before = std::count(columns.begin(), columns.begin() + std::ssize(keys), column);
    keys.push_back(before == 0 ? column : fmt::format("{} ({})", column, before + 1));
  }
  Json records = Json::array();
  for (const std::vector<Json>& row : rows) {
    core::require(row.size() == columns.size(), "table \"{}\": a row of {} cells for {} columns", title, row.size(),
                  columns.size());
    text.emplace_back();
    records.push_back(Json::object());
    for (size_t i = 0; i < row.size(); ++i) {
      text.back().push_back(shown(row[i]));
      records.back()[keys[i]] = row[i];
    }
  }
  std::string lines = "\n" + title + "\n";
  for (const std::vector<std::string>& row : text) {
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : text) width = std::max(width, train::svg::count_characters(other[i]));
      const std::string gap(width - train::svg::count_characters(row[i]), ' ');
      lines += i == 0 ? "  " + row[i] + gap : "  " + gap + row[i];
    }
    lines += "\n";
  }
  say(lines);
  json_["tables"][title] = std::move(records);
}

void Report::value(const std::string& name, const Json& number) {
  say(fmt::format("{}: {}", name, shown(number)));
  json_["values"][name] = number;
}

// Checks that `fulfils` returns true for every value; it must return false for NaN. Prints the first rejected value or,
// if there is none, the value nearest to `limit`.
template <typename Number, typename Fulfils>
void Report::check(const std::string& text, const std::vector<Number>& by_seed, const std::string& relation,
                   Number limit, Fulfils fulfils) {
  core::require(!by_seed.empty(), "result \"{}\": nothing was measured", text);
  auto worst = std::find_if_not(by_seed.begin(), by_seed.end(), fulfils);
  const bool holds = worst == by_seed.end();
  if (holds) {
    const auto distance = [&](Number value) { return value < limit ? limit - value : value - limit; };
    worst =
        std::min_element(by_seed.begin(), by_seed.end(), [&](Number a, Number b) { return distance(a) < distance(b); });
  }
  const auto shown = [](const Json& value) {
    return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump();
  };
  say(fmt::format("result {}: {}: measured {} {} {}{}", holds ? "holds" : "FAILS", text, shown(*worst), relation,
                  shown(limit), by_seed.size() > 1 ? fmt::format(" (the nearest of {} seeds)", by_seed.size()) : ""));
  json_["results"].push_back({{"text", text},
                              {"holds", holds},
                              {"measured", *worst},
                              {"relation", relation},
                              {"limit", limit},
                              {"by_seed", by_seed}});
  all_hold_ = all_hold_ && holds;
}

void Report::check_below(const std::string& text, const std::vector<double>& by_seed, double limit) {
  check(text, by_seed, "<", limit, [limit](double value) { return value < limit; });
}

void Report::check_above(const std::string& text, const std::vector<double>& by_seed, double limit) {
  check(text, by_seed, ">", limit, [limit](double value) { return value > limit; });
}

void Report::check_equal(const std::string& text, const std::vector<int64_t>& by_seed, int64_t expected) {
  check(text, by_seed, "=", expected, [expected](int64_t value) { return value == expected; });
}

void Report::check_below(const std::string& text, double measured, double limit) {
  check_below(text, std::vector{measured}, limit);
}

void Report::check_above(const std::string& text, double measured, double limit) {
  check_above(text, std::vector{measured}, limit);
}

void Report::picture(const std::string& file_name, const std::string& svg) {
  core::write_file_atomically(directory_ / file_name, svg);
  json_["pictures"].push_back(file_name);
}

void Report::check_below(const std::string& text, const Interval& interval, double limit) {
  check_below(text + " (the interval's upper end)", interval.high, limit);
}

void Report::check_above(const std::string& text, const Interval& interval, double limit) {
  check_above(text + " (the interval's lower end)", interval.low, limit);
}

int Report::finish() {
  core::write_file_atomically(directory_ / "results.json", json_.dump(2) + "\n");
  say(fmt::format("\n{}: {}; picture and results.json are in {}", name_,
                  all_hold_ ? "every result holds" : "A RESULT FAILED", directory_.string()));
  return all_hold_ ? 0 : 1;
}

std::string joined(const std::vector<double>& by_seed) {
  std::string text;
  for (const double value : by_seed) {
    text += text.empty() ? "" : " / ";
    text += std::isnan(value) ? "NaN" : fmt::format("{:.3f}", value);  // fmt prints "-nan" for some NaNs
  }
  return text;
}

std::string joined(const std::vector<int64_t>& by_seed) { return fmt::format("{}", fmt::join(by_seed, " / ")); }

std::string shown(const Interval& interval, int digits) {
  return fmt::format("{1:+.{0}f} [{2:+.{0}f}, {3:+.{0}f}]", digits, interval.mean, interval.low, interval.high);
}

std::string visible(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "↵" : c == ' ' ? "␣" : std::string(1, c);
  return out;
}

int exit_code_of(const std::string& name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    fmt::print(stderr, "{}: {}\n", name, what.substr(0, what.find('\n')));
    return dynamic_cast<const core::UsageError*>(&error) != nullptr ? 2 : 1;
  }
}

int run_study(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study) {
  return exit_code_of(name, [&] {
    const Options options = parse(argc, argv, name);
    Report report(name, options.directory, options.seed, options.short_form);
    study(report);
    return report.finish();
  });
}

}  // namespace folio::experiments
