// Statistics of the generated outputs, by sampler setting, for the table, the picture and the checks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/18_sampling/texts.h"
#include "experiments/common/report.h"

namespace folio::experiments {

struct Setting {
  std::string name;
  infer::SamplerOptions options;
};

class Results {
 public:
  /// Each setting has `texts_of_a_seed` outputs per seed, which must be added seed by seed.
  explicit Results(size_t texts_of_a_seed) : texts_of_a_seed_(texts_of_a_seed) {}

  void add(const std::string& name, const std::vector<Counted>& texts);

  /// Returns a statistic, such as &Counted::entropy, of each output of the setting `name`.
  [[nodiscard]] std::vector<double> all(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double mean(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double least(const std::string& name, double Counted::*number) const;
  /// Returns, for each seed, the mean of the statistic `number` over the outputs of the setting `name`.
  [[nodiscard]] std::vector<double> by_seed(const std::string& name, double Counted::*number) const;
  /// Returns, for each seed, the mean of the statistic `number` for setting `a` minus that for setting `b`.
  [[nodiscard]] std::vector<double> gap(const std::string& a, const std::string& b, double Counted::*number) const;

  /// Shows a table with rows for the corpus (named `book`) and each setting. Plots -ln p and entropy by temperature for
  /// the settings without truncation.
  void show(Report& report, const std::string& book, const std::vector<Setting>& settings) const;

 private:
  size_t texts_of_a_seed_;
  std::map<std::string, std::vector<Counted>> texts_;
};

}  // namespace folio::experiments
