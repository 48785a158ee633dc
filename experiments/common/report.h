// What every experiment does around its study: reads its flags, prints tables and claims, and writes the picture and
// a JSON object with all that it measured into its folder under runs/experiments/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/statistics.h"
#include "train/report/line_chart.h"

namespace folio::experiments {

/// A study's results. A claim that does not hold makes the program exit with 1; a value that is not a number never
/// fulfils one.
class Report {
 public:
  using Json = nlohmann::ordered_json;

  Report(std::string name, std::filesystem::path directory, uint64_t seed, bool short_form = false);

  [[nodiscard]] uint64_t seed() const { return seed_; }
  /// Where the study's files go.
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  /// Whether a few seconds have to do: one seed, and what the study leaves out. Every claim that is made has to hold.
  [[nodiscard]] bool short_form() const { return short_form_; }
  /// The seeds of a study that is run several times: three from seed() on, or seed() alone in short form.
  [[nodiscard]] std::vector<uint64_t> seeds() const;

  /// Prints a line, and nothing else: progress.
  void say(const std::string& line) const;

  /// Prints rows under their columns' names. Cells are strings, whole numbers, or numbers shown with three decimals
  /// (smaller ones as 1.2e-06); null is shown as a dash. In results.json the second column of a name is "NAME (2)".
  void table(const std::string& title, const std::vector<std::string>& columns,
             const std::vector<std::vector<Json>>& rows);

  /// Prints a number that is neither in a table nor claimed, such as a time.
  void value(const std::string& name, const Json& number);

  void claim_below(const std::string& text, double measured, double limit);  ///< measured < limit
  void claim_above(const std::string& text, double measured, double limit);  ///< measured > limit
  void claim_equal(const std::string& text, int64_t measured, int64_t expected);

  /// The same of one value for each seed: each has to fulfil the claim, and the one that comes nearest to not is shown.
  void claim_below(const std::string& text, const std::vector<double>& by_seed, double limit);
  void claim_above(const std::string& text, const std::vector<double>& by_seed, double limit);
  void claim_equal(const std::string& text, const std::vector<int64_t>& by_seed, int64_t expected);

  /// The same of a mean: all of its 95 % interval has to fulfil the claim, and the end that comes nearest is shown.
  void claim_below(const std::string& text, const Interval& interval, double limit);
  void claim_above(const std::string& text, const Interval& interval, double limit);

  /// Writes `file_name`, an SVG document, into the experiment's folder.
  void picture(const std::string& file_name, const std::string& svg);
  void picture(const std::string& file_name, const train::LineChart& chart);

  /// Writes results.json and says where everything is. The program's exit code.
  [[nodiscard]] int finish();

 private:
  template <typename Number, typename Fulfils>
  void claim(const std::string& text, const std::vector<Number>& by_seed, const std::string& relation, Number limit,
             Fulfils fulfils);

  std::string name_;
  std::filesystem::path directory_;
  uint64_t seed_;
  bool short_form_;
  Json json_;
  bool all_hold_ = true;
};

/// "0.492 / 0.508 / 0.462" or "10 / 10 / 10", for a table's cell.
[[nodiscard]] std::string joined(const std::vector<double>& by_seed);
[[nodiscard]] std::string joined(const std::vector<int64_t>& by_seed);

/// The main function of the experiment of that name. Its flags are --out DIR (default: runs/experiments/NAME), --seed N
/// (default 1) and --short. Exit codes: 0 every claim holds; 1 one does not, or an error; 2 wrong usage.
[[nodiscard]] int run_study(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study);

/// The same with LibTorch on one thread; in the library that sees LibTorch. The models are small: one thread is about
/// as fast as two, and sums the same on every machine.
[[nodiscard]] int run(int argc, char** argv, const std::string& name, const std::function<void(Report&)>& study);

}  // namespace folio::experiments
