// The framework of all studies: flags, tables, checked results, and the files written to runs/experiments/NAME/
// (pictures and results.json).
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/common/statistics.h"
#include "train/report/line_chart.h"

namespace folio::experiments {

/// Collects a study's tables and results. The program exits with 1 if a check fails; NaN fails every check.
class Report {
 public:
  using Json = nlohmann::ordered_json;
  using Rows = std::vector<std::vector<Json>>;

  Report(std::string name, std::filesystem::path directory, uint64_t seed, bool short_form = false);

  [[nodiscard]] uint64_t seed() const { return seed_; }
  /// Returns the directory of the study's output files: --out, by default runs/experiments/NAME. It exists.
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  /// Returns true if the study must finish in seconds: one seed, reduced grids. All checks must still pass.
  [[nodiscard]] bool short_form() const { return short_form_; }
  /// Returns seed(), seed() + 1 and seed() + 2, or only seed() in short form.
  [[nodiscard]] std::vector<uint64_t> seeds() const;

  /// Prints a progress line that is not stored in results.json. Thread-safe.
  void say(const std::string& line) const;

  /// Prints a table and stores it. Cells are strings, integers, or floats with three decimals (small ones as 1.2e-06);
  /// null is shown as a dash. In results.json, repeated column names become "NAME (2)".
  void table(const std::string& title, const std::vector<std::string>& columns, const Rows& rows);

  /// Prints and stores a value that is not checked, such as a time.
  void value(const std::string& name, const Json& number);

  void check_below(const std::string& text, double measured, double limit);  ///< checks that measured < limit
  void check_above(const std::string& text, double measured, double limit);  ///< checks that measured > limit
  void check_equal(const std::string& text, std::integral auto measured, std::integral auto expected) {
    check_equal(text, std::vector{static_cast<int64_t>(measured)}, static_cast<int64_t>(expected));
  }

  /// Checks a result that was measured once per seed: every value must pass. Prints the value closest to failing.
  void check_below(const std::string& text, const std::vector<double>& by_seed, double limit);
  void check_above(const std::string& text, const std::vector<double>& by_seed, double limit);
  void check_equal(const std::string& text, const std::vector<int64_t>& by_seed, int64_t expected);

  /// Checks a mean: its whole 95 % interval must pass. Prints the end of the interval closest to failing.
  void check_below(const std::string& text, const Interval& interval, double limit);
  void check_above(const std::string& text, const Interval& interval, double limit);

  /// Writes an SVG document, or a chart's, to `file_name` in the output directory.
  void picture(const std::string& file_name, const std::string& svg);
  void picture(const std::string& file_name, const train::LineChart& chart) { picture(file_name, chart.svg()); }
  void picture(const std::string& file_name, const auto& chart) { picture(file_name, chart.svg()); }

  /// Writes results.json, prints the output directory and whether all checks passed, and returns the exit code: 0 if
  /// they did, otherwise 1.
  [[nodiscard]] int finish();

 private:
  template <typename Number, typename Fulfils>
  void check(const std::string& text, const std::vector<Number>& by_seed, const std::string& relation, Number limit,
             Fulfils fulfils);

  std::string name_;
  std::filesystem::path directory_;
  uint64_t seed_;
  bool short_form_;
  Json json_;
  bool all_hold_ = true;
};

/// Formats values for a table cell: "0.492 / 0.508 / 0.462" or "10 / 10 / 10".
[[nodiscard]] std::string joined(const std::vector<double>& by_seed);
[[nodiscard]] std::string joined(const std::vector<int64_t>& by_seed);
/// Formats an interval for a table cell: "+0.012 [-0.003, +0.027]".
[[nodiscard]] std::string shown(const Interval& interval, int digits = 3);
/// Makes spaces and line ends visible: "␣the", "↵".
[[nodiscard]] std::string visible(std::string_view text);

/// Returns the exit code of body(). If it throws, prints NAME and the first line of the message (LibTorch appends a
/// stack trace), and returns 2 for core::UsageError, otherwise 1.
[[nodiscard]] int exit_code_of(const std::string& name, const std::function<int()>& body);

/// Runs a study as main(). Flags: --out DIR (default: runs/experiments/NAME), --seed N (default: 1), and --short for
/// the short form. Returns the exit code: 0 if all results hold, 1 if a result fails or the study throws, 2 for wrong
/// usage.
[[nodiscard]] int run_study(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study);

/// Like run_study(), but limits LibTorch to one thread, which is as fast as two for these small models and rounds in
/// the same way on every machine. Defined in the library that links LibTorch.
[[nodiscard]] int run(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study);

}  // namespace folio::experiments
