// What every experiment does around its study: reads its flags, prints tables and claims, and writes the picture and
// a JSON object with all that it measured into its folder under runs/experiments/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/line_chart.h"

namespace folio::experiments {

/// A study's results. A claim that does not hold makes the program exit with 1; a value that is not a number never
/// fulfils one.
class Report {
 public:
  using Json = nlohmann::ordered_json;

  Report(std::string name, std::filesystem::path directory, uint64_t seed);

  [[nodiscard]] uint64_t seed() const { return seed_; }

  /// Prints a line, and nothing else: progress.
  void say(const std::string& line) const;

  /// Prints rows under their columns' names. Cells are strings, whole numbers, or numbers shown with three decimals;
  /// null is shown as a dash.
  void table(const std::string& title, const std::vector<std::string>& columns,
             const std::vector<std::vector<Json>>& rows);

  void claim_below(const std::string& text, double measured, double limit);  ///< measured < limit
  void claim_above(const std::string& text, double measured, double limit);  ///< measured > limit
  void claim_equal(const std::string& text, int64_t measured, int64_t expected);

  /// Writes `file_name` into the experiment's folder.
  void picture(const std::string& file_name, const train::LineChart& chart);

  /// Writes results.json and says where everything is. The program's exit code.
  [[nodiscard]] int finish();

 private:
  void claim(const std::string& text, bool holds, const Json& measured, const std::string& relation, const Json& limit);

  std::string name_;
  std::filesystem::path directory_;
  uint64_t seed_;
  Json json_;
  bool all_hold_ = true;
};

/// The main function of the experiment of that name. Its flags are --out DIR (default: runs/experiments/NAME) and
/// --seed N (default 1). Exit codes: 0 every claim holds; 1 one does not, or an error; 2 wrong usage.
[[nodiscard]] int run(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study);

}  // namespace folio::experiments
