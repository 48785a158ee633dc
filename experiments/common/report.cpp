#include "experiments/common/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/paths.h"

namespace folio::experiments {
namespace {

namespace fs = std::filesystem;

std::string shown(const Report::Json& cell) {
  if (cell.is_null()) return "–";
  if (cell.is_string()) return cell.get<std::string>();
  return cell.is_number_float() ? fmt::format("{:.3f}", cell.get<double>()) : cell.dump();
}

struct Options {
  fs::path directory;
  uint64_t seed = 1;
};

Options parse(int argc, char** argv, const std::string& name) {
  Options options{.directory = core::runs_directory() / "experiments" / name};
  const std::string usage = fmt::format("usage: {} [--out DIR] [--seed N]", name);
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag != "--out" && flag != "--seed") {
      throw core::UsageError(fmt::format("unknown argument {}; {}", core::printable(flag), usage));
    }
    if (i + 1 == argc) throw core::UsageError(fmt::format("{} needs a value; {}", flag, usage));
    const std::string_view value = argv[i + 1];
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

Report::Report(std::string name, fs::path directory, uint64_t seed)
    : name_(std::move(name)), directory_(std::move(directory)), seed_(seed) {
  fs::create_directories(directory_);
  json_ = {{"experiment", name_}, {"seed", seed_}, {"tables", Json::object()}, {"claims", Json::array()}};
}

void Report::say(const std::string& line) const {
  fmt::print("{}\n", line);
  std::fflush(stdout);  // studies take a while, and their output is often piped
}

void Report::table(const std::string& title, const std::vector<std::string>& columns,
                   const std::vector<std::vector<Json>>& rows) {
  std::vector<std::vector<std::string>> text{columns};
  Json records = Json::array();
  for (const std::vector<Json>& row : rows) {
    core::require(row.size() == columns.size(), "table \"{}\": a row of {} cells for {} columns", title, row.size(),
                  columns.size());
    text.emplace_back();
    records.push_back(Json::object());
    for (size_t i = 0; i < row.size(); ++i) {
      text.back().push_back(shown(row[i]));
      records.back()[columns[i]] = row[i];
    }
  }
  std::string lines = "\n" + title + "\n";
  for (const std::vector<std::string>& row : text) {
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : text) width = std::max(width, other[i].size());
      // The first column names the row; numbers stand under each other.
      lines += i == 0 ? fmt::format("  {:<{}}", row[i], width) : fmt::format("  {:>{}}", row[i], width);
    }
    lines += "\n";
  }
  say(lines);
  json_["tables"][title] = std::move(records);
}

void Report::claim(const std::string& text, bool holds, const Json& measured, const std::string& relation,
                   const Json& limit) {
  const auto number = [](const Json& value) {
    return value.is_number_float() ? fmt::format("{:.4f}", value.get<double>()) : value.dump();
  };
  say(fmt::format("claim {}: {}: measured {} {} {}", holds ? "holds" : "FAILS", text, number(measured), relation,
                  number(limit)));
  json_["claims"].push_back(
      {{"text", text}, {"holds", holds}, {"measured", measured}, {"relation", relation}, {"limit", limit}});
  all_hold_ = all_hold_ && holds;
}

void Report::claim_below(const std::string& text, double measured, double limit) {
  claim(text, measured < limit, measured, "<", limit);
}

void Report::claim_above(const std::string& text, double measured, double limit) {
  claim(text, measured > limit, measured, ">", limit);
}

void Report::claim_equal(const std::string& text, int64_t measured, int64_t expected) {
  claim(text, measured == expected, measured, "=", expected);
}

void Report::picture(const std::string& file_name, const train::LineChart& chart) {
  core::write_file_atomically(directory_ / file_name, chart.svg());
  json_["picture"] = file_name;
}

int Report::finish() {
  core::write_file_atomically(directory_ / "results.json", json_.dump(2) + "\n");
  say(fmt::format("\n{}: {}; picture and results.json are in {}", name_,
                  all_hold_ ? "every claim holds" : "A CLAIM FAILED", directory_.string()));
  return all_hold_ ? 0 : 1;
}

int run(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study) {
  try {
    const Options options = parse(argc, argv, name);
    Report report(name, options.directory, options.seed);
    study(report);
    return report.finish();
  } catch (const core::UsageError& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace folio::experiments
